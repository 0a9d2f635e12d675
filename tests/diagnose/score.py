"""How a diagnosis of a generated program is counted."""

from __future__ import annotations

from typing import Literal

import simulator
from simulator.diagnose import Diagnosis, diagnose
from simulator.diagnose import diagnosis as d
from tests.diagnose.interpreter import run_lines
from tests.diagnose.places import Faulty
from tests.diagnose.program import Program

Score = Literal["exact", "other reading", "by values", "missed"]


def run_program(program: Program) -> simulator.Run:
    return simulator.run(
        run_lines, program.world_size, rank_args=program.arguments(), faults=program.faults, echo=False
    )


def score(case: Faulty, run: simulator.Run) -> tuple[Score, Diagnosis]:
    """exact: class and culprits. other reading: the culprits, and the class is one of those that leave the same trace.

    by values: a swap that left nothing but other results than the healthy program's.
    """
    found = diagnose(run.trace)
    if case.accepts_ranks(found.ranks):
        if found.kind == case.kind:
            return "exact", found
        if found.kind in case.allowed or case.kind in found.also:
            return "other reading", found
    is_silent_swap = case.kind == d.SWAPPED and found.is_healthy and run.outcome.name == "Completed"
    if is_silent_swap and run.results != run_program(case.healthy).results:
        return "by values", found
    return "missed", found
