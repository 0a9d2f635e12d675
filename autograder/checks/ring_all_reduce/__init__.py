"""Check of lab2/ring-all-reduce: an all-reduce that the student writes from send and recv.

Cases of one world size share one simulator run, so that a check is a handful of runs; what fails is run again alone,
for a picture that shows nothing else. Traffic is judged from the witnessed trace, values from bytes that ranks return.
Ranks import this package too (for ``ranks``), so it loads nothing by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autograder.checks import OUTCOME_HINT_KEYS

if TYPE_CHECKING:
    from autograder.checks.runs import Progress
    from autograder.checks.student import Assembly
    from autograder.course import Exercise
    from autograder.results import CheckResult, Params

HINT_KEYS = (
    *OUTCOME_HINT_KEYS,
    "value",
    "agreement",
    "point-to-point-only",
    "bytes",
    "hub",
    "slow-rank",
    "input-mutated",
)


def run(assembly: Assembly, exercise: Exercise, params: Params, progress: Progress) -> CheckResult:
    """Run the check. Trusted code: student code runs in the ranks of simulator.run only."""
    from autograder.checks.ring_all_reduce import check

    return check.run(assembly, exercise, params, progress)
