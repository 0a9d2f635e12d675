"""Places of a trace worth going to: what is wrong, what failed, where faults acted, where the longest wait is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.diagnose import Diagnosis, diagnose
from simulator.show import units, words
from simulator.show.reading import waiting_ns
from simulator.show.style import MARKS
from simulator.show.totals import is_open
from simulator.trace import Event, Trace

MOST = 12
"""Places of one sort that are listed; more would hide the others."""

MOST_EVENTS = 10_000
"""In longer traces no diagnosis is made for the list: it may take longer than opening the picture."""


@dataclass(frozen=True)
class Place:
    """An event (its number in the trace) of trace `trace`, and what to say of it."""

    text: str
    trace: int
    event: int

    def told(self) -> dict[str, Any]:
        """For the browser."""
        return {"text": self.text, "trace": self.trace, "event": self.event}


def place_of(trace: Trace, found: Diagnosis | Event, number: int = 0) -> Place | None:
    """Where a diagnosis or an event is in a trace; None if the trace has no such event."""
    if isinstance(found, Event):
        event: Event | None = found
        text = f"{found.label}, rank {found.rank}{words.at_step(found)}"
    else:
        event, text = _call(trace, found), f"Diagnosis: {found.kind}, {units.ranks(found.ranks)}"
    index = next((n for n, other in enumerate(trace.events) if other == event), None)
    return None if index is None else Place(text, number, index)


def _call(trace: Trace, found: Diagnosis) -> Event | None:
    """The call that a diagnosis speaks of: a culprit's, else of those that waited, else the last of a culprit."""
    calls = [e for e in trace.events if found.seq >= 0 and (e.group, e.seq) == (found.group, found.seq)]
    mine = [e for e in calls if e.rank in found.ranks]
    failed = [e for e in trace.events if is_open(e)]
    last = [e for e in trace.events if e.rank in found.ranks and e.op != "exit"][-1:]
    return next(iter([*mine, *calls, *failed, *last]), None)


def places(traces: Sequence[Trace], names: Sequence[str]) -> Iterator[Place]:
    """The places of one trace, or of two with where they first differ."""
    if len(traces) == 2:
        yield from _difference(traces)
    for number, trace in enumerate(traces):
        for place in _of_trace(trace, number):
            yield Place(f"{names[number]}: {place.text}", number, place.event) if len(traces) > 1 else place


def _difference(traces: Sequence[Trace]) -> Iterator[Place]:
    first = traces[0].diff(traces[1]).first
    for number, event in enumerate((first.one, first.other) if first else ()):
        if event is not None and (place := place_of(traces[number], event, number)):
            yield Place(f"First difference: {place.text}", number, place.event)
            return


def _of_trace(trace: Trace, number: int) -> Iterator[Place]:
    found = diagnose(trace) if len(trace) <= MOST_EVENTS and trace.events else None
    if found and not found.is_healthy and (place := place_of(trace, found, number)):
        yield place
    events = list(enumerate(trace.events))
    failed = [(n, e) for n, e in events if is_open(e)]
    yield from (Place(f"rank {e.rank}: {words.failure(e)}", number, n) for n, e in failed[:MOST])
    slowed: set[int] = set()
    acted = [(n, e) for n, e in events if e.op in MARKS]
    for n, event in acted[:MOST]:
        if event.op != "slow" or event.rank not in slowed:
            yield Place(f"Fault: rank {event.rank} {words.fault(trace, event)}", number, n)
        slowed |= {event.rank}
    n, longest = max(events, key=lambda item: waiting_ns(item[1]), default=(0, None))
    if longest and waiting_ns(longest) > 0:
        waited = units.duration(waiting_ns(longest))
        yield Place(f"Longest wait: rank {longest.rank} in {longest.label}, {waited}", number, n)
