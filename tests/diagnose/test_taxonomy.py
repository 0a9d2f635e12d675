"""Every case of the taxonomy: outcome, class and culprits; the same from other recordings of the same run."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

import simulator
from simulator.diagnose import KINDS, diagnose
from simulator.diagnose import diagnosis as d
from simulator.trace import FAILED
from tests.diagnose.edits import foreign, renumbered, without_rank
from tests.diagnose.taxonomy import CASES, Case
from tests.diagnose.wrong_programs import receives_while_others_reduce

_runs: dict[str, simulator.Run] = {}


def run_of(case: Case) -> simulator.Run:
    """One run of each case serves all tests."""
    if case.name not in _runs:
        _runs[case.name] = simulator.run(case.program, case.world_size, echo=False)
    return _runs[case.name]


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


@every_case
def test_outcome_class_and_culprits(case: Case) -> None:
    run = run_of(case)
    found = diagnose(run.trace)
    assert run.outcome.name == case.outcome, run.outcome
    assert (found.kind, found.ranks) == (case.kind, case.ranks), found
    for rank in case.ranks:
        assert str(rank) in found.text
    assert found.text.endswith(found.advice)
    assert not re.search(r"[.] [a-z]|Rank \d+ (wait|make|differ|take|are)\b", found.text), found.text


@every_case
def test_other_recordings_of_the_same_run(case: Case) -> None:
    """Other rank numbers; without exits and clock; without one of the ranks."""
    trace = run_of(case).trace
    _other_numbers(case, trace)
    found = diagnose(foreign(trace))
    assert (found.kind, found.ranks) == (case.kind, case.ranks), found
    for rank in range(case.world_size):
        _one_missing(case, without_rank(trace, rank), rank)


def _other_numbers(case: Case, trace: simulator.Trace) -> None:
    found = diagnose(trace)
    for numbers in permutations(range(case.world_size)):
        again = diagnose(renumbered(trace, numbers))
        assert again.ranks == tuple(sorted(numbers[rank] for rank in found.ranks)), numbers
        assert (again.kind, again.seq, set(again.also)) == (found.kind, found.seq, set(found.also)), numbers


def _one_missing(case: Case, trace: simulator.Trace, rank: int) -> None:
    """Without an innocent rank nothing changes; without the only culprit, that one left no event."""
    found = diagnose(trace)
    stuck = any(event.status in FAILED for event in trace)
    if case.program is receives_while_others_reduce and rank == 1:
        assert found.ranks == (1,)  # rank 0 waits for a message of a rank without a trace: it may as well have died
    elif rank not in case.ranks:
        assert (found.kind, found.ranks) == (case.kind, case.ranks), f"without rank {rank}: {found}"
    elif case.ranks == (rank,):
        assert (found.kind, found.ranks) == ((d.DEAD, (rank,)) if stuck or case.kind == d.DEAD else (d.NONE, ())), found


def test_every_class_is_met() -> None:
    """A cut network needs a fault plan: tests/faults."""
    assert {case.kind for case in CASES} == set(KINDS) - {d.NETWORK}


def test_a_swap_in_branches_shows_in_the_values_only() -> None:
    [case] = [case for case in CASES if case.program.__name__ == "swaps_two_in_branches"]
    assert run_of(case).results != [case.right] * case.world_size


def test_a_saved_trace_gives_the_same_diagnosis(tmp_path) -> None:
    trace = run_of(CASES[0]).trace
    loaded = simulator.Trace.load(trace.save(tmp_path / "trace.jsonl"))
    assert diagnose(loaded) == diagnose(trace)
