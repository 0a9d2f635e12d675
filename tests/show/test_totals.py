"""The sums behind a timeline, against numbers worked out by hand."""

from __future__ import annotations

import pytest

import simulator
from simulator.show import totals, units
from simulator.show.lanes import messages, stretches
from simulator.show.reading import reading
from tests.show.build import Builder
from tests.simulator import layers

SECOND = 1_000_000_000


def test_waiting_and_transfer_are_split_where_the_operation_starts() -> None:
    b = Builder(2)
    b.compute(0, 100)
    b.compute(1, 400)
    b.collective("all_reduce", 50)
    early, late = totals(b.trace())
    assert (early.compute_ns, early.waiting_ns, early.transfer_ns, early.elapsed_ns) == (100, 300, 50, 450)
    assert (late.compute_ns, late.waiting_ns, late.transfer_ns, late.elapsed_ns) == (400, 0, 50, 450)
    assert early.idle_ns == late.idle_ns == 0


def test_transfer_behind_compute_is_counted_apart() -> None:
    b = Builder(1)
    b.compute(0, 100)
    b.communicate(0, "all_reduce", 20, start_ns=30, end_ns=130, wait_ns=100)
    (total,) = totals(b.trace())
    assert (total.compute_ns, total.waiting_ns, total.transfer_ns, total.overlapped_ns) == (100, 0, 30, 70)
    assert [(s.t0, s.t1, s.behind) for s in stretches(b.events) if s.kind == "collective"] == [
        (30, 100, True),
        (100, 130, False),
    ]


def test_time_stuck_in_a_failure_is_left_out_of_percentages() -> None:
    b = Builder(2)
    b.compute(0, 1000)
    b.fail(0, "all_reduce", "timeout", 1800 * SECOND)
    stuck, absent = totals(b.trace())
    assert stuck.stuck_ns == 1800 * SECOND
    assert stuck.counted_ns == 1000
    assert absent.elapsed_ns == 0


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.5 µs"),
        (3_000_000, "3.0 ms"),
        (12_340_000, "12.3 ms"),
        (1800 * SECOND, "1,800 s"),
    ],
)
def test_durations_read_well(ns: int, said: str) -> None:
    assert units.duration(ns) == said


def test_ranks_are_named_as_in_a_sentence() -> None:
    assert units.ranks([1]) == "rank 1"
    assert units.ranks([2, 0]) == "ranks 0 and 2"
    assert units.ranks([0, 2, 3, 4, 7]) == "ranks 0, 2-4 and 7"


def test_messages_pair_in_order_of_sender_receiver_and_tag() -> None:
    b = Builder(2)
    for tag in (7, 8):
        b.communicate(0, "send", 10, start_ns=10, end_ns=20, peer=1, tag=tag)
    for tag in (8, 7):
        b.communicate(1, "recv", 5, start_ns=10, end_ns=20, peer=0, tag=tag)
    assert [(send.tag, recv.tag) for send, recv in messages(b.events)] == [(8, 8), (7, 7)]


def test_reading_names_who_was_late_and_by_how_much() -> None:
    b = Builder(3)
    for rank, ns in enumerate((1_000_000, 4_000_000, 1_200_000)):
        b.compute(rank, ns)
    b.collective("all_reduce", 10_000)
    assert reading(b.trace()) == "rank 1 was late at all_reduce #0 by 3.0 ms; ranks 0 and 2 waited"


def test_reading_names_who_never_called_a_collective() -> None:
    b = Builder(3, "CollectiveTimeout")
    for rank in (0, 2):
        b.fail(rank, "all_reduce", "timeout", 1800 * SECOND)
    assert reading(b.trace()) == "ranks 0 and 2 timed out in all_reduce #0; rank 1 never called it"


def test_reading_sets_calls_that_do_not_match_side_by_side() -> None:
    b = Builder(3, "CollectiveMismatch")
    for rank, shape in enumerate(((2, 2), (2, 3), (2, 2))):
        b.fail(rank, "all_reduce", "mismatch", 0, shapes=(shape,))
    said = reading(b.trace())
    assert "all_reduce #0 on every rank, but shapes [2, 3] on rank 1, shapes [2, 2] on ranks 0 and 2" in said


def test_reading_of_ranks_that_all_receive() -> None:
    b = Builder(3, "CollectiveTimeout")
    for rank in range(3):
        b.fail(rank, "recv", "timeout", 1800 * SECOND, peer=(rank - 1) % 3)
    assert reading(b.trace()) == "every rank waits to receive and none sends"


def test_reading_of_a_trace_without_waiting_and_without_events() -> None:
    b = Builder(2)
    assert "no events" in reading(b.trace())
    b.compute(0, 100)
    b.compute(1, 100)
    assert reading(b.trace()) == "no rank communicated"
    b.collective("all_reduce", 100)
    assert reading(b.trace()).startswith("no rank waited noticeably")


def test_exposed_and_overlapped_gathers_of_fsdp2():
    # nine transfers of 13 us; its critical path (tests/simulator/test_critical_path.py) is 131 us, 90 of them compute
    run = simulator.run(layers.fsdp, 2, args=((6000, 6000, 6000), 10, 20), cluster=layers.EASY, echo=False)
    step, _ = totals(run.trace.select(steps=1))
    assert (step.compute_ns, step.transfer_ns, step.overlapped_ns) == (90_000, 41_000, 9 * 13_000 - 41_000)
