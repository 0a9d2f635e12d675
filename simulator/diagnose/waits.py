"""Who waits for whom: circles of ranks, messages that nobody sends, and calls on the wrong group.

Used where no rank's sequence parts from the others': everybody did the same as far as it got, and nobody gets further.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.diagnose import diagnosis as d
from simulator.diagnose.circles import of_circle
from simulator.diagnose.finding import Finding, ranks_text
from simulator.diagnose.repair import Waits
from simulator.diagnose.tape import UNEVEN_OPS, Tapes
from simulator.trace import Event

_LATE_ADVICE = "Look at what it does before this call (data, a checkpoint, a compilation), or allow a longer timeout."
_PARTS_ADVICE = (
    "The trace holds no split sizes; the error of each rank names two ranks that disagree. Exchange the sizes first."
)


def deadlock(tapes: Tapes) -> Finding | None:
    """A circle of waits, or a message whose other end never comes."""
    waits = Waits.of(tapes)
    if found := of_circle(tapes, waits):
        return found
    for rank, event in sorted(waits.stuck.items(), key=lambda item: (item[1].issue_ns, item[0])):
        absent = tuple(r for r in waits.targets[rank] if r not in tapes.missing and r not in waits.stuck)
        if event.is_p2p and absent:
            return _unmet_message(tapes, event, absent)
    return None


def _unmet_message(tapes: Tapes, event: Event, absent: tuple[int, ...]) -> Finding:
    """The other end has finished: one end is missing, or the other is too much. Both are named."""
    ranks = tuple(sorted({event.rank, *absent}))
    also = (d.EXTRA, d.UNEVEN, d.DEADLOCK_P2P)
    me, them = f"rank {event.rank}", ranks_text(absent)
    other, way, back = ("recv", "to", "from") if event.op == "send" else ("send", "from", "to")
    made = sum(e.op == other and e.peer in (event.rank, -1) for rank in absent for e in tapes.calls[rank])
    calls = f"{made} {other}{'s' if made != 1 else ''} {back} {me}"
    what = f"{me.capitalize()} waits in a {event.op} {way} {them} that nobody meets, for {them} finished with {calls}"
    advice = f"Give each send its recv: one more {other} on {them}, or one {event.op} less on {me}."
    return Finding(
        d.OMITTED, ranks, event.issue_ns, also, event.group, -1, (event,), is_tie=True, what=what, advice=advice
    )


def late_ranks(tapes: Tapes) -> Finding | None:
    """A collective that every rank called, some only when the others had given up waiting for them."""
    stuck = [event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None and event.is_collective]
    gave_up = [event for event in stuck if event.status == "timeout" and event.end_ns > event.issue_ns]
    for first in sorted(gave_up, key=lambda e: (e.end_ns, e.issue_ns, e.rank)):
        there = tuple(e for e in stuck if (e.group, e.seq) == (first.group, first.seq))
        late = [e for e in there if e.issue_ns >= first.end_ns and tapes.group_of(e) == tapes.group_of(first)]
        if late:
            return _too_late(tapes, first, late, there)
    return None


def _too_late(tapes: Tapes, first: Event, late: list[Event], there: tuple[Event, ...]) -> Finding:
    seconds = f"{round((max(e.issue_ns for e in late) - first.end_ns) / 1e9, 3):,g}"
    clock = "virtual " if tapes.is_checked else ""
    ranks, at = tuple(e.rank for e in late), first.issue_ns
    what = f"{ranks_text(ranks).capitalize()} came {seconds} {clock}seconds too late"
    return Finding(d.SLOW, ranks, at, (), first.group, first.seq, there, what=what, advice=_LATE_ADVICE)


def unequal_parts(tapes: Tapes) -> Finding | None:
    """A collective whose parts may differ in size was refused, although all else agrees: the parts do not fit."""
    stuck = [event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None]
    bad = [event for event in stuck if event.status == "mismatch" and event.op in UNEVEN_OPS]
    if not bad:
        return None
    first = min(bad, key=lambda e: (e.issue_ns, e.rank))
    calls = tuple(e for e in bad if (e.group, e.seq) == (first.group, first.seq))
    ranks = tuple(e.rank for e in calls)
    what = f"The parts that {ranks_text(ranks)} pass do not fit each other"
    at = first.issue_ns
    return Finding(d.SHAPE, ranks, at, (), first.group, first.seq, calls, is_tie=True, what=what, advice=_PARTS_ADVICE)


def unexplained(tapes: Tapes) -> Finding | None:
    """Ranks are stuck, and the trace does not hold why (for example: it does not say who is in which group)."""
    stuck = tuple(event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None)
    if not stuck:
        return None
    kind: str = d.DEADLOCK_GROUPS if len({e.group for e in stuck}) > 1 else d.OMITTED
    kind = d.DEADLOCK_P2P if all(e.is_p2p for e in stuck) else kind
    ranks = tuple(sorted({rank for e in stuck for rank in (e.rank, *tapes.waits_for(e))}))
    first = min(stuck, key=lambda e: (e.issue_ns, e.rank))
    return Finding(kind, ranks, first.issue_ns, (), first.group, first.seq, stuck, is_tie=True)


def unequal_message(tapes: Tapes) -> Finding | None:
    """A message whose two ends do not fit."""
    bad = [e for rank in tapes.present for e in tapes.calls[rank] if e.is_p2p and e.status == "mismatch"]
    if not bad:
        return None
    first = min(bad, key=lambda e: (e.issue_ns, e.rank))
    ends = tuple(e for e in bad if e.peer in (first.rank, -1) or e.rank == first.rank)
    kind = d.DTYPE if len({e.dtype for e in ends}) > 1 and len({e.shapes for e in ends}) == 1 else d.SHAPE
    ranks = tuple(sorted({e.rank for e in ends} | {first.peer} - {-1}))
    return Finding(kind, ranks, first.issue_ns, (), first.group, -1, ends, is_tie=True)


def on_another_group(tapes: Tapes, found: Finding) -> Finding:
    """Read `found` as a call on the wrong group, where the culprits' line was called on another group by others."""
    for rank in found.ranks if len(found.ranks) == 1 or not found.is_tie else ():
        if instead := _made_elsewhere(tapes, found, rank):
            calls = (*(e for e in found.calls if e.rank != rank), instead)
            return replace(found, kind=d.GROUP, ranks=(rank,), also=(found.kind,), calls=calls)
    for rank in found.ranks:
        own = next((e for e in found.calls if e.rank == rank and e.site), None)
        for rows in (rows for group, rows in tapes.groups.items() if own and group != tapes.group_of(own)):
            if own and rank in rows and (expected := _expected_at(rows, rank, own)):
                ranks = (rank,) if not found.is_tie else tuple(r for r in found.ranks if r in rows)
                calls = (*expected, *(e for e in found.calls if e.rank == rank))
                return replace(found, kind=d.GROUP, ranks=ranks, also=(found.kind,), calls=calls, group=own.group)
    return found


def _made_elsewhere(tapes: Tapes, found: Finding, rank: int) -> Event | None:
    """The call that `rank` left out, made by it alone, from the same line and in the same step, on another group."""
    missed = next((e for e in found.calls if e.rank != rank and e.is_collective), None)
    if found.kind != d.OMITTED or missed is None or not missed.site:
        return None
    mine = [e for e in tapes.calls[rank] if (e.site, e.step) == (missed.site, missed.step)]
    return next((e for e in mine if e.group != missed.group), None)


def _expected_at(rows: dict[int, list[Event]], rank: int, own: Event) -> tuple[Event, ...]:
    """Calls of others at the same line and step in this group, where `rank` made none: it may have gone on since."""
    if any((e.site, e.step) == (own.site, own.step) for e in rows[rank]):
        return ()
    theirs = [e for r, events in rows.items() if r != rank for e in events]
    return tuple(e for e in theirs if e.site == own.site and e.step == own.step)
