"""Operations that every member called alike, and that never completed: not the ranks failed, but the network."""

from __future__ import annotations

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding
from simulator.diagnose.tape import Tapes, call_of
from simulator.trace import Event


def cut_network(tapes: Tapes) -> Finding | None:
    """The first collective or message that all its members wait for, with the same arguments, until the timeout."""
    stuck = {rank: event for rank in tapes.present if (event := tapes.blocked_on(rank)) and _has_waited(event)}
    meetings = [found for rank, event in sorted(stuck.items()) if (found := _meeting(tapes, event, stuck))]
    first = min(meetings, key=lambda events: max(event.issue_ns for event in events), default=())
    if not first:
        return None
    ranks = tuple(sorted(event.rank for event in first))
    return Finding(d.NETWORK, ranks, first[0].issue_ns, group=first[0].group, seq=first[0].seq, calls=first)


def _has_waited(event: Event) -> bool:
    """It timed out by itself; what is called on a group that has timed out before fails at once."""
    return event.status == "timeout" and event.end_ns > event.issue_ns


def _meeting(tapes: Tapes, event: Event, stuck: dict[int, Event]) -> tuple[Event, ...]:
    if event.is_p2p:
        other = stuck.get(event.peer)
        is_pair = other is not None and other.peer == event.rank and other.op != event.op and other.tag == event.tag
        is_alike = other is not None and (other.group, other.shapes) == (event.group, event.shapes)
        return (event, other) if other is not None and is_pair and is_alike else ()
    members = tapes.group_of(event).members
    calls = tuple(stuck[rank] for rank in members if rank in stuck and stuck[rank].seq == event.seq)
    same = {(call.group, call_of(call).signature) for call in calls}
    return calls if len(calls) == len(members) and len(same) == 1 else ()
