"""What a check is (`Check`, `Property`) and how one runs: cases to runs of the simulator, to findings, parts, points.

A check's module describes it in one constant ``CHECK``; docs/lab_anatomy.md has the recipe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal

from autograder.checks.cases import C, select
from autograder.checks.seen import Fault, R, Seen

if TYPE_CHECKING:
    from autograder.checks.runs import Progress
    from autograder.checks.student import Assembly
    from autograder.course import Exercise
    from autograder.results import CheckResult, Params

# What every check may find, whatever it is about: autograder/checks/runs.py.
OUTCOME_KEYS = ("unfinished", "name-only-in-kernel", "deadlock", "mismatch", "endless-loop", "crash")
WITHOUT_RANKS = ("unfinished", "name-only-in-kernel", "endless-loop", "crash")


def _plain(case: Any) -> dict[str, Any]:
    return {}


def _in_itself(case: Any) -> None:
    return None


def _any(case: Any) -> bool:
    return True


@dataclass(frozen=True)
class Property(Generic[C, R]):
    """One thing that must hold in every case.

    Attributes:
        key: key of the finding, and of its hints.
        title: heading of the finding.
        wrong: what is wrong with a case, or None.
        rests_on: ``witnessed`` (the trace: announcements that the trusted side matched, and how ranks ended),
            ``reported`` (values that the rank returned, compared on the trusted side), or both. No value that
            a rank returns decides the first; forged announcements can (docs/instructors.md says what then happens).
        part: the part of the exercise that is lost; the key itself unless given.
        first: the other properties are looked at only in cases where this one holds.
        always: looked at also in runs that did not complete; ``said`` is then empty.
        about: the cases that can show it. It is looked at in those only, and its part needs one of them.
        after: key of a property, and its part, that comes before: while it fails in some case, this one says nothing.
    """

    key: str
    title: str
    wrong: Callable[[Seen[C, R]], Fault | None]
    rests_on: Literal["witnessed", "reported", "both"]
    part: str = ""
    first: bool = False
    always: bool = False
    about: Callable[[C], bool] = _any
    after: str = ""

    @property
    def loses(self) -> str:
        """The key of the part that is lost."""
        return self.part or self.key


@dataclass(frozen=True)
class Check(Generic[C, R]):
    """One exercise's check. Everything runs in the trusted process but ``on_rank``.

    Attributes:
        case: the class of its cases.
        said: the type of what ``on_rank`` returns: a msgspec struct, or plain types. Anything else from a rank is an
            error of that rank.
        visible: the fixed public cases, the plainest first, because the first that fails is shown.
        drawn: cases of the same kinds, drawn; for hidden and fresh ones.
        on_rank: ``on_rank(case, *functions)`` in each rank, with the objects that course.yaml lists under ``defines``.
        properties: in the order in which findings are shown.
        options: keyword arguments of `simulator.run` for a case: faults, cluster, reduction.
        under: (finding key, title) for a case that puts the solution under stress: whatever goes wrong there counts as
            that finding, and it is looked at only where the plain cases are right. None for plain cases.
        stress_keys: the finding keys that ``under`` gives.
        batched: neighbouring cases with the same ranks and options share one run, one step each. Quicker; not for
            exercises whose own code counts steps.
        needs_ranks: False for a function that runs alone, on one rank, without communication.
        endings: the part that is lost when a run does not complete, if the exercise has such a part.
        max_operations: communications of a rank in one case; more is an endless loop.
        cpu_limit_s: processor seconds without communication; more is an endless loop.
    """

    case: type[C]
    said: Any
    visible: Callable[[], Sequence[C]]
    drawn: Callable[[random.Random], Sequence[C]]
    on_rank: Callable[..., Any]
    properties: tuple[Property[C, R], ...]
    options: Callable[[C], dict[str, Any]] = _plain
    under: Callable[[C], tuple[str, str] | None] = _in_itself
    stress_keys: tuple[str, ...] = ()
    batched: bool = False
    needs_ranks: bool = True
    endings: str = "terminates"
    max_operations: int = 1000
    cpu_limit_s: float = 3.0

    @property
    def hint_keys(self) -> tuple[str, ...]:
        """The findings that need hints."""
        return tuple(dict.fromkeys((*(OUTCOME_KEYS if self.needs_ranks else WITHOUT_RANKS), *self.own_keys)))

    @property
    def own_keys(self) -> tuple[str, ...]:
        """The findings that this check alone has."""
        return tuple(dict.fromkeys((*(p.key for p in self.properties), *self.stress_keys)))

    def cases(self, exercise_id: str, params: Params) -> list[C]:
        """The cases that ``params`` asks for."""
        return select(self.case, exercise_id, params, self.visible(), self.drawn)

    def run(self, assembly: Assembly, exercise: Exercise, params: Params, progress: Progress) -> CheckResult:
        """Run the check. Trusted code: student code runs in the ranks of simulator.run only."""
        from autograder.checks.engine import Engine

        return Engine(self, assembly, exercise, params, progress).result()
