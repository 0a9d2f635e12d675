"""Check of lab2/ring-all-reduce: an all-reduce that the student writes from send and recv.

Cases of one world size share one simulator run, so that a check is a handful of runs; what fails is run again alone,
for a picture that shows nothing else. Traffic is judged from the witnessed trace, values from bytes that ranks return.
"""

from __future__ import annotations

from autograder.checks.ring_all_reduce.check import run
from autograder.checks.runs import OUTCOME_HINT_KEYS

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

__all__ = ["HINT_KEYS", "run"]
