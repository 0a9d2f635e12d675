"""Where the virtual time of every rank went: pure arithmetic on a trace, shared by the picture, its text and checks.

A rank's thread computes, or is blocked in an operation (``wait_ns`` to ``end_ns``), or is idle. Of a blocked stretch,
the part before ``start_ns`` is waiting for other ranks and the rest is the transfer itself. A transfer that runs
while the rank does something else is overlapped: it costs the rank nothing and is counted apart. Of a transfer in a
side stream (FSDP2's gathers) the part for which the compute stream had to wait is exposed and counts as transfer. Time
blocked in an operation that failed is counted as stuck, because a virtual timeout is millions of times longer than the
work before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.faults import KINDS
from simulator.trace import FAILED, Event, Trace

FAULTS = frozenset(KINDS)
COMPUTE = "compute"  # the stream beside which others run


@dataclass(frozen=True, slots=True)
class RankTotals:
    """Virtual nanoseconds of one rank; ``elapsed_ns`` is when its last event ended.

    ``is_stuck``: the rank was blocked in an operation that failed or, where ``stuck_ns`` is 0, has no recorded end.
    """

    rank: int
    compute_ns: int = 0
    waiting_ns: int = 0
    transfer_ns: int = 0
    overlapped_ns: int = 0
    stuck_ns: int = 0
    elapsed_ns: int = 0
    is_stuck: bool = False

    @property
    def counted_ns(self) -> int:
        """The time that percentages refer to: elapsed, without the time stuck in a failed operation."""
        return self.elapsed_ns - self.stuck_ns

    @property
    def idle_ns(self) -> int:
        """Elapsed time that no event explains."""
        return max(0, self.counted_ns - self.compute_ns - self.waiting_ns - self.transfer_ns)


def has_failed(event: Event) -> bool:
    """Says whether an operation ended in a failure that its rank saw."""
    return event.is_communication and event.status in FAILED


def is_open(event: Event) -> bool:
    """Says whether an operation did not end well: it failed, or was issued and never finished."""
    return has_failed(event) or (event.is_communication and event.status == "pending")


def is_blank(trace: Trace) -> bool:
    """Says whether a trace has nothing to draw: no communication, no work that takes time, no fault."""
    return not any(e.is_communication or e.op in FAULTS or (e.op == "compute" and e.end_ns > e.start_ns) for e in trace)


def split(event: Event) -> tuple[int, int, int]:
    """Splits a finished operation into (waiting, transfer, overlapped) virtual nanoseconds."""
    if event.start_ns < 0 or event.end_ns < 0:
        return 0, 0, 0
    whole = event.end_ns - event.start_ns
    if event.wait_ns < 0:
        return 0, 0, whole
    transfer = max(0, event.end_ns - max(event.start_ns, event.wait_ns))
    return max(0, event.start_ns - event.wait_ns), transfer, whole - transfer


def last_ns(event: Event) -> int:
    """Returns the latest virtual time that an event mentions."""
    return max(event.issue_ns, event.start_ns, event.wait_ns, event.end_ns)


def rank_totals(events: Iterable[Event], rank: int) -> RankTotals:
    """Adds up the events of one rank; events of other ranks are ignored."""
    compute = waiting = transfer = overlapped = stuck = elapsed = 0
    is_stuck = False
    for event in events:
        if event.rank != rank:
            continue
        elapsed = max(elapsed, last_ns(event))
        if event.op == "compute" and event.end_ns >= 0:
            compute += event.end_ns - event.start_ns if event.stream == COMPUTE else 0
        elif event.op == "stream_wait":
            transfer, overlapped = transfer + event.end_ns - event.start_ns, overlapped - event.end_ns + event.start_ns
        elif is_open(event):
            is_stuck = is_stuck or (event.wait_ns >= 0 and (event.status != "mismatch" or event.end_ns > event.wait_ns))
            stuck += event.end_ns - event.wait_ns if event.end_ns >= 0 and event.wait_ns >= 0 else 0
        elif event.is_communication:
            parts = split(event)
            waiting, transfer, overlapped = waiting + parts[0], transfer + parts[1], overlapped + parts[2]
    return RankTotals(rank, compute, waiting, transfer, max(0, overlapped), stuck, elapsed, is_stuck)


def world_size(trace: Trace) -> int:
    """Returns the number of lanes of a trace: its header's world size, or the highest rank seen plus one."""
    return max([int(trace.header.get("world_size", 0)), *(event.rank + 1 for event in trace.events)])


def by_rank(trace: Trace) -> dict[int, list[Event]]:
    """Returns the events of every rank; a rank without events has an empty list."""
    events: dict[int, list[Event]] = {rank: [] for rank in range(world_size(trace))}
    for event in trace.events:
        events[event.rank].append(event)
    return events


def totals(trace: Trace) -> tuple[RankTotals, ...]:
    """Returns the totals of every rank, in rank order; ranks without events have zeros."""
    return tuple(rank_totals(events, rank) for rank, events in by_rank(trace).items())
