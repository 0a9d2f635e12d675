"""A trace laid out for drawing: bars and events of every rank, the time axis, messages, faults, and the page."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.show import legend
from simulator.show.axis import TimeAxis, build_axis
from simulator.show.bars import Bar, bars
from simulator.show.geometry import LEFT, RIGHT, WIDTH, Geometry
from simulator.show.lanes import Stretch, messages, stretches
from simulator.show.style import MARKS
from simulator.show.totals import by_rank, is_open
from simulator.trace import Event, Trace

MAX_ARROWS = 60
"""More arrows than this cannot be followed, so none is drawn."""

SLOW_APART_PT = 64.0
"""A rank is slowed down again at every step; glyphs nearer than this are drawn once."""


@dataclass(frozen=True, slots=True)
class FaultPoint:
    """A fault that fired, at a place of a lane (points on the page)."""

    event: Event
    x: float


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn, in points on the page except for the bars, which count from the lane's left end."""

    trace: Trace
    axis: TimeAxis
    geometry: Geometry
    bars: dict[int, list[Bar]]
    events: dict[int, list[Event]]
    messages: list[tuple[Event, Event]]
    faults: list[FaultPoint]
    legend: list[str]

    @property
    def edge(self) -> float:
        """The right end of the lanes."""
        return LEFT + self.axis.edge

    def x(self, ns: int) -> float:
        """Places a virtual time on the page."""
        return LEFT + self.axis.x(ns)


def lay_out(trace: Trace, subtitle_lines: int) -> Scene:
    """Decides the place of everything in a trace."""
    events = by_rank(trace)
    parts = {rank: stretches(of_rank) for rank, of_rank in events.items()}
    times = [ns for e in trace.events for ns in (e.issue_ns, e.start_ns, e.wait_ns, e.end_ns) if ns >= 0]
    needs_tail = any(is_open(event) for event in trace.events)
    axis = build_axis(times, _active(parts), WIDTH - LEFT - RIGHT, needs_tail=needs_tail)
    placed = {rank: bars(of_rank, axis) for rank, of_rank in parts.items()}
    pairs = messages(trace.events)
    pairs = pairs if len(pairs) <= MAX_ARROWS else []
    names = legend.entries(
        (bar for of_rank in placed.values() for bar in of_rank),
        trace.events,
        has_arrows=bool(pairs),
        has_cuts=bool(axis.cuts),
    )
    geometry = Geometry(len(events), subtitle_lines, legend.num_rows(names))
    return Scene(trace, axis, geometry, placed, events, pairs, _fault_points(events, axis), names)


def _active(parts: dict[int, list[Stretch]]) -> list[tuple[int, int]]:
    """Returns the intervals of virtual time in which something happens on some rank."""
    quiet = ("waiting", "failed")
    return [(p.t0, p.t1) for of_rank in parts.values() for p in of_rank if p.t1 is not None and p.kind not in quiet]


def _fault_points(events: dict[int, list[Event]], axis: TimeAxis) -> list[FaultPoint]:
    found: list[FaultPoint] = []
    for of_rank in events.values():
        last_slow = -SLOW_APART_PT
        for event in of_rank:
            x = LEFT + axis.x(event.issue_ns)
            if event.op not in MARKS or (event.op == "slow" and x - last_slow < SLOW_APART_PT):
                continue
            last_slow = x if event.op == "slow" else last_slow
            found.append(FaultPoint(event, x))
    return found
