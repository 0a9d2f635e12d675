"""Comparing traces: the first event that differs, its cause before its consequences, and programs run twice."""

from __future__ import annotations

import pytest

import simulator
from simulator.trace.diff import diff
from tests.show.build import Builder
from tests.trace import programs


def small(*, slow_rank: int | None = None, shape: int = 4, outcome: str = "Completed", **header: object) -> Builder:
    """Three ranks: compute, all_reduce, compute, all_reduce."""
    builder = Builder(3, outcome, **header)
    for step in range(2):
        builder.begin_step(step)
        for rank in range(3):
            builder.compute(rank, 2_000 if rank == slow_rank and step == 1 else 1_000)
        builder.collective("all_reduce", 500)
    if shape != 4:
        builder.events = [e for e in builder.events if e.rank != 1 or e.n < 5]
        builder.n[1], builder.seq[1], builder.now[1] = 5, 1, 2_500
        builder.fail(1, "all_reduce", "mismatch", 10, shapes=((shape,),), dtype="float32", bytes=4 * shape)
    return builder


def test_the_same_trace_is_no_difference():
    found = small().trace().diff(small().trace())
    assert not found
    assert found.first is None
    assert str(found) == "The traces are the same: all 18 events of all ranks."


def test_call_sites_are_not_compared():
    one, other = Builder(1), Builder(1)
    one.add(0, "compute", 0, end_ns=5, site="a.py:1")
    other.add(0, "compute", 0, end_ns=5, site="b.py:2")
    assert not one.trace().diff(other.trace())


def test_the_rank_that_did_something_else_comes_before_those_that_waited():
    found = small().trace().diff(small(slow_rank=2).trace())
    assert found
    assert found.first is not None
    assert (found.first.rank, found.first.position) == (2, 4)
    assert found.first.one is not None
    assert found.first.one.op == "compute"
    assert "first at rank 2, step 1, event 4 of its program" in found.text
    assert "compute for 1.0 µs from 1.5 µs" in found.text
    assert "compute for 2.0 µs from 1.5 µs" in found.text
    assert found.further == {0: 1, 1: 1, 2: 1}
    assert "3 more events differ (rank 0: 1, rank 1: 1, rank 2: 1)" in found.text
    assert found.text.index("wall clock") < found.text.index("order of a set")


def test_every_field_that_differs_is_named_in_words():
    found = diff(small().trace(), small(shape=5, outcome="CollectiveMismatch").trace(), ("the old", "new.jsonl"))
    assert "old:       all_reduce #1 at 2.5 µs, ok" in found.text
    assert "new.jsonl: all_reduce #1 (float32[5]) at 2.5 µs, mismatch" in found.text
    assert "differs in shapes: none / [5]; dtype: none / float32; bytes: 0 / 20" in found.text
    assert "The old ended with Completed, new.jsonl with CollectiveMismatch." in found.text
    assert "Event(" not in found.text


def test_a_difference_in_waiting_alone_is_said_to_be_one():
    one, other = Builder(2), Builder(2)
    one.collective("all_reduce", 500)
    other.collective("all_reduce", 900)
    found = one.trace().diff(other.trace())
    assert found.first is not None
    assert found.first.is_effect
    assert "Every rank called the same things" in found.text
    assert "ended at: 500 ns / 900 ns" in found.text


def test_a_program_that_ends_early():
    one, other = Builder(1), Builder(1)
    one.compute(0, 5)
    other.compute(0, 5)
    other.compute(0, 7)
    assert "nothing: the program of this rank has ended" in one.trace().diff(other.trace()).text


def test_different_settings_are_told_first_and_explain_the_rest():
    found = small(faults="slow(rank=1, factor=2)").trace().diff(small(slow_rank=1, faults="").trace())
    assert found.settings == (("faults", "slow(rank=1, factor=2)", ""),)
    assert found.text.startswith("The two runs were asked for different things:\n  faults: 'slow(rank=1, factor=2)'")
    assert "usually causes" not in found.text
    assert small(seed=1).trace().diff(small(seed=2).trace())


def test_other_world_sizes_can_be_compared():
    found = Builder(2).trace().diff(small().trace())
    assert ("world_size", 2, 3) in found.settings
    assert found.first is not None


def test_a_collective_order_taken_from_a_set_is_caught(capsys):
    run, found = simulator.run_twice(programs.sums_named_gradients, 2)
    assert run.ok
    assert found.first is not None
    one, other = found.first.one, found.first.other
    assert one is not None
    assert other is not None
    assert one.op == other.op == "all_reduce"
    assert one.shapes != other.shapes
    assert "programs.py:" in found.text
    assert "PYTHONHASHSEED" in found.text
    assert "Rank 0 makes the same calls in both, in another order." in found.text
    assert found.text.index("order of a set") < found.text.index("randomness")
    assert "differs in shapes: " in capsys.readouterr().out


def test_a_program_that_does_the_same_again(capsys):
    before = simulator.launch.world_pids()
    run, found = simulator.run_twice(programs.sums_named_gradients_sorted, 2)
    assert run.ok
    assert not found
    assert "The traces are the same" in capsys.readouterr().out
    assert not before or simulator.launch.world_pids() == before


@pytest.mark.slow
def test_unseeded_randomness_names_the_rank_that_drew():
    _, found = simulator.run_twice(programs.computes_for_a_random_time, 3, echo=False)
    assert found.first is not None
    assert found.first.rank == 1
    assert found.first.kind == "times"
