"""What gloo gets to hold: aliases of a caller's tensors, and the wait until it has let go of them.

gloo's threads drop their references a little after `wait` returned, by the real clock. Where the caller dropped its
own in between (every second time, measured), the storage would die on gloo's thread, at a moment that depends on the
machine, and virtual memory would with it. Autograd counts references, too: a gradient that gloo still holds is copied,
one that nobody else holds is taken as it is, one operator less. Where neither time nor memory of operators is followed
nobody can tell, and none of this is done.
"""

from __future__ import annotations

import contextlib
import select
import sys
from contextlib import AbstractContextManager
from typing import Any

import torch

_SEEN_BY_NOBODY = contextlib.nullcontext()  # entering it again and again is cheap
_LONGEST = 1_000_000  # looks: many seconds; then something else than gloo holds the alias, which harms nobody


def unseen() -> AbstractContextManager[Any]:
    """In here dispatch modes see no operator: what is done inside a collective is no work of the program."""
    return torch._C._DisableTorchDispatch() if torch._C._len_torch_dispatch_stack() else _SEEN_BY_NOBODY


def aliases(value: Any) -> Any:
    """The same arguments with other tensor objects on the same storages, of which nobody else knows."""
    with unseen():
        return _aliases(value)


def _aliases(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return type(value)(map(_aliases, value)) if type(value) in (list, tuple) else value


def num_references(value: Any) -> int:
    """How many references the aliases in `value` have, of C++ and of Python."""
    if isinstance(value, torch.Tensor):
        return int(value._use_count()) + sys.getrefcount(value)  # type: ignore[attr-defined]
    return sum(map(num_references, value)) if type(value) in (list, tuple) else 0


def wait_released(value: Any, num_before: int) -> None:
    """Returns when the aliases in `value` have no more references than before gloo got them.

    C++ that shares a tensor with Python holds its Python object, too, and lets go of that last, for which its thread
    needs the GIL.
    """
    for _ in range(_LONGEST):
        if num_references(value) <= num_before:
            return
        select.select((), (), (), 0)  # releases the GIL, which os.sched_yield does not
