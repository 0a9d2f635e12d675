"""How a diagnosis of a generated program is counted."""

from __future__ import annotations

from typing import Final

import simulator
from simulator.diagnose import Diagnosis, diagnose
from simulator.diagnose import diagnosis as d
from tests.diagnose.places import Faulty
from tests.diagnose.program import run_program
from tests.diagnose.witness import is_proven

EXACT: Final = "exact"
SUSPECTED: Final = "suspected"
BY_VALUES: Final = "by values"
TIE: Final = "proven tie"
MISSED: Final = "missed"


def score(case: Faulty, run: simulator.Run) -> tuple[str, Diagnosis]:
    """exact: class and culprits. proven tie: the culprits, the class is among those that the diagnosis names, and the
    one that it names first is proven to leave this very trace, too. suspected: the same, for a swap. by values: a swap
    that left nothing but other results than the healthy program's.
    """
    found = diagnose(run.trace)
    if case.accepts_ranks(found.ranks):
        if found.kind == case.kind:
            return EXACT, found
        if case.kind in found.also and is_proven(case, run.trace, found.kind):
            return SUSPECTED if case.kind == d.SWAPPED else TIE, found
    is_silent_swap = case.kind == d.SWAPPED and found.is_healthy and run.outcome.name == "Completed"
    if is_silent_swap and run.results != run_program(case.healthy).results:
        return BY_VALUES, found
    return MISSED, found
