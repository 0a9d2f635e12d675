"""Selecting part of a trace."""

from __future__ import annotations

import pytest

from simulator import Trace, UsageError
from simulator.trace import FAILED
from tests.trace.test_diff import small

TRACE = small(shape=5).trace()


def numbers(trace: Trace) -> list[tuple[int, int]]:
    return [(event.rank, event.n) for event in trace]


def test_each_filter_looks_at_its_field():
    assert {event.rank for event in TRACE.select(ranks=(0, 2))} == {0, 2}
    assert {event.step for event in TRACE.select(steps=range(1, 9))} == {1}
    assert {event.op for event in TRACE.select(ops="all_reduce")} == {"all_reduce"}
    assert {event.group for event in TRACE.select(groups="default")} == {"default"}
    assert numbers(TRACE.select(status=FAILED)) == [(1, 5)]
    assert len(TRACE.select(phases="backward")) == 0


def test_filters_add_up_and_nothing_selects_everything():
    assert numbers(TRACE.select(ranks=1, steps=0, ops={"all_reduce", "step"})) == [(1, 0), (1, 2)]
    assert TRACE.select().digest == TRACE.digest
    assert TRACE.select().header == TRACE.header


def test_the_header_says_what_was_selected(tmp_path):
    part = TRACE.select(ranks=1, steps=range(2))
    assert part.header["selected"] == {"ranks": [1], "steps": [0, 1]}
    assert Trace.load(part.save(tmp_path / "part.jsonl")).header == part.header
    assert "selected" not in TRACE.header


def test_a_rank_that_is_not_there_is_an_error():
    with pytest.raises(UsageError, match=r"no rank 3 in this trace of 3 ranks \(0 to 2\)"):
        TRACE.select(ranks=3)
