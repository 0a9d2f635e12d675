"""The rank side of every check: load the student's cell, then let the check's ``on_rank`` call it, case by case.

Runs in ranks only: processes of their own, which the student's code shares. Several cases in one run are one step each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from autograder.checks.cases import Case
from autograder.checks.seen import Array
from autograder.checks.student import Assembly, OperationLimit, forbid, load

MAX_OPERATIONS = 1000  # communications in one case, unless the check says otherwise


def run_cases(
    assembly: Assembly,
    forbidden: Sequence[str],
    names: Sequence[str],
    on_rank: Callable[..., Any],
    kind: type[Case],
    cases: Sequence[dict[str, Any]],
    max_operations: int,
) -> list[Any]:
    """Call ``on_rank(case, *functions)`` for every case in turn; what each returned, as plain data.

    Args:
        assembly: the student's code.
        forbidden: dotted names that raise when called.
        names: the functions, or other objects, of the student's cell that ``on_rank`` gets.
        on_rank: a function of the check's module.
        kind: the case's class.
        cases: fields of each case.
        max_operations: communications in one case, then EndlessExchangeError.
    """
    import simulator

    forbid(forbidden)
    functions = load(assembly, *names)
    operations = OperationLimit(max_operations)
    said = []
    for k in simulator.steps(len(cases)) if len(cases) > 1 else range(len(cases)):
        operations.reset()
        said.append(msgspec.to_builtins(on_rank(msgspec.convert(cases[k], kind), *functions), builtin_types=(bytes,)))
    return said


def array(tensor: Any) -> Array:
    """A tensor or numpy array as data: its dtype, shape and bytes."""
    import numpy as np

    values = np.ascontiguousarray(tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else tensor)
    return Array(str(values.dtype), list(np.shape(tensor)), values.tobytes())
