"""Where things land: the broken axis, merged bars, looks that differ without colour."""

from __future__ import annotations

from itertools import combinations, pairwise

from simulator.show.axis import build_axis, nice_step
from simulator.show.bars import LEVELS, bars
from simulator.show.lanes import KINDS, stretches
from simulator.show.scene import lay_out
from simulator.show.style import LOOKS, MARKS
from simulator.show.totals import FAULTS
from tests.show.build import Builder

SECOND = 1_000_000_000


def test_axis_without_a_long_quiet_stretch_is_linear() -> None:
    axis = build_axis([0, 100, 400], [(0, 100), (300, 400)], 200.0)
    assert not axis.cuts
    assert [axis.x(ns) for ns in (0, 100, 200, 400)] == [0.0, 50.0, 100.0, 200.0]


def test_a_timeout_is_cut_out_and_both_sides_keep_one_scale() -> None:
    late = 1800 * SECOND
    axis = build_axis([0, 1000, 3000, late, late + 2000], [(0, 3000)], 500.0, needs_tail=True)
    (cut,) = axis.cuts
    assert (cut.t0, cut.t1) == (3000, late)
    assert axis.x(1000) - axis.x(0) == axis.x(2000) - axis.x(1000)
    assert axis.x(late + 2000) == axis.edge == 500.0
    positions = [axis.x(ns) for ns in (0, 500, 3000, 4000, SECOND, late, late + 1000, late + 2000)]
    assert all(left < right for left, right in pairwise(positions))


def test_a_long_stretch_in_which_a_rank_computes_is_never_cut() -> None:
    axis = build_axis([0, 10, 20, 100_000], [(0, 10), (20, 100_000)], 500.0)
    assert not axis.cuts


def test_ticks_are_round() -> None:
    assert [nice_step(span, 5) for span in (3, 10, 47, 1_000_000)] == [1, 2, 10, 200_000]


def test_kinds_differ_without_colour() -> None:
    assert set(LOOKS) == set(KINDS)
    for one, other in combinations(LOOKS.values(), 2):
        assert set(one.hatch) != set(other.hatch)
    assert set(MARKS) == FAULTS
    assert len({mark.marker for mark in MARKS.values()}) == len(MARKS)


def test_a_crowd_keeps_its_shares_and_bounds_the_number_of_bars() -> None:
    b = Builder(2)
    for _ in range(500):
        b.compute(0, 30)
        b.compute(1, 90)
        b.collective("all_reduce", 10)
    axis = build_axis([0, b.now[0]], [(0, b.now[0])], 500.0)
    placed = bars(stretches(event for event in b.events if event.rank == 0), axis)
    assert len(placed) < 200
    area = {kind: sum(bar.width * (bar.bottom - bar.top) for bar in placed if bar.kind == kind) / 500 for kind in KINDS}
    for kind, share in (("compute", 0.3), ("waiting", 0.6), ("collective", 0.1)):
        assert abs(area[kind] - share) < 1 / LEVELS


def test_wide_bars_lie_exactly_where_their_times_are() -> None:
    b = Builder(1)
    b.compute(0, 250)
    b.collective("barrier", 750)
    axis = build_axis([0, 1000], [(0, 1000)], 100.0)
    assert [(bar.kind, bar.x0, bar.x1) for bar in bars(stretches(b.events), axis)] == [
        ("compute", 0.0, 25.0),
        ("collective", 25.0, 100.0),
    ]


def test_an_operation_that_never_ended_reaches_the_edge() -> None:
    b = Builder(2, "PeerLost")
    b.compute(0, 1000)
    b.fail(0, "all_reduce", "lost", None)
    scene = lay_out(b.trace(), 1)
    (bar,) = [bar for bar in scene.bars[0] if bar.kind == "failed"]
    assert bar.x1 == scene.axis.edge
    assert bar.width > 100


def test_more_messages_than_can_be_followed_have_no_arrows() -> None:
    b = Builder(2)
    for k in range(61):
        b.communicate(0, "send", k, start_ns=k, end_ns=k + 1, peer=1)
        b.communicate(1, "recv", k, start_ns=k, end_ns=k + 1, wait_ns=k, peer=0)
    assert lay_out(b.trace(), 1).messages == []
    assert "message" not in lay_out(b.trace(), 1).legend
