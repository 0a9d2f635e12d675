"""From events to stretches of a lane, in virtual time: what the rank's thread did, and what ran behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.show.totals import COMPUTE, has_failed, is_open

if TYPE_CHECKING:
    from simulator.trace import Event

KINDS = ("compute", "waiting", "collective", "send", "recv", "failed")
"""Every kind of stretch; how each one looks is in `simulator.show.style`."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a lane from ``t0`` to ``t1`` virtual nanoseconds.

    ``t1`` is None when the operation never ended. A stretch that is ``behind`` runs while the thread does
    something else.
    """

    kind: str
    t0: int
    t1: int | None
    event: Event
    behind: bool = False


def stretches(events: Iterable[Event]) -> list[Stretch]:
    """Returns the stretches of one rank's events, in the order of their start."""
    found = [stretch for event in events for stretch in _of_event(event)]
    return sorted(found, key=lambda stretch: (stretch.t0, stretch.event.n))


def _of_event(event: Event) -> Iterator[Stretch]:
    if event.op == "compute" and event.end_ns > event.start_ns >= 0:
        yield Stretch("compute", event.start_ns, event.end_ns, event, behind=event.stream != COMPUTE)
    elif event.op == "stream_wait":
        yield Stretch("collective", event.start_ns, event.end_ns, event)
    elif is_open(event):
        since = event.wait_ns if event.wait_ns >= 0 else event.issue_ns
        end = event.end_ns if event.end_ns >= since else None
        yield Stretch("failed", since, end, event, behind=event.wait_ns < 0)
    elif event.is_communication and event.start_ns >= 0 and event.end_ns >= 0:
        yield from _of_operation(event)


def _of_operation(event: Event) -> Iterator[Stretch]:
    """Splits a finished operation where it starts and where its rank begins to wait for it."""
    kind = "collective" if event.is_collective else event.op
    start, end = event.start_ns, event.end_ns
    wait = event.wait_ns if event.wait_ns >= 0 else end
    if wait < start:
        yield Stretch("waiting", wait, start, event)
    if start < min(wait, end):
        yield Stretch(kind, start, min(wait, end), event, behind=True)
    if max(start, wait) < end:
        yield Stretch(kind, max(start, wait), end, event)


def messages(events: Iterable[Event]) -> list[tuple[Event, Event]]:
    """Pairs finished sends with the receives that took them: the k-th of each (sender, receiver, tag, group)."""
    sends: dict[tuple[int, int, int, str], list[Event]] = {}
    pairs: list[tuple[Event, Event]] = []
    finished = [event for event in events if event.is_p2p and event.end_ns >= 0 and not has_failed(event)]
    ordered = sorted(finished, key=lambda event: (event.rank, event.n))
    for event in ordered:
        if event.op == "send":
            sends.setdefault((event.rank, event.peer, event.tag, event.group), []).append(event)
    for event in ordered:
        queue = sends.get((event.peer, event.rank, event.tag, event.group)) if event.op == "recv" else None
        if queue:
            pairs.append((queue.pop(0), event))
    return pairs
