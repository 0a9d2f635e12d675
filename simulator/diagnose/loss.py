"""Ranks that are gone: killed, ended by an exception of their own, spinning, or without a single event."""

from __future__ import annotations

from dataclasses import replace

from simulator.diagnose import diagnosis as d
from simulator.diagnose.circles import of_circle
from simulator.diagnose.finding import MAKE_IN_ONE_ORDER, Finding, ranks_text
from simulator.diagnose.reading import is_past
from simulator.diagnose.repair import Waits
from simulator.diagnose.tape import Tapes, call_of
from simulator.trace import FAILED, Event

_WORDS = {
    "killed": "died: killed",
    "hung": "hangs: alive, and silent",
    "crashed": "ended without a word (exited or was killed)",
    "spinning": "used up all processor time without calling anything",
    "error": "raised an exception without having heard of a failure",
}


def dead_ranks(tapes: Tapes) -> Finding | None:
    """The ranks that went first by themselves: what others met after that is a consequence."""
    gone = {rank: end for rank in tapes.present if (end := _death(tapes, rank)) is not None}
    if not gone:
        return None if tapes.has_exits else _lost_peer(tapes)
    at = min(end.issue_ns for end in gone.values())
    if any(event.issue_ns < at for event in _failures(tapes)):
        return None  # they failed after something else had gone wrong
    first = {rank: end for rank, end in gone.items() if end.issue_ns == at}
    said: dict[str, list[int]] = {}
    for rank, end in first.items():
        said.setdefault(_words(tapes, end), []).append(rank)
    why = "; ".join(f"{ranks_text(ranks)} {words}" for words, ranks in said.items())
    waiting = tuple(stuck for rank in tapes.present if rank not in first and (stuck := tapes.blocked_on(rank)))
    return Finding(d.DEAD, tuple(first), at, calls=waiting, why=why)


def _lost_peer(tapes: Tapes) -> Finding | None:
    """Where nobody recorded how ranks ended: those that a lost call waited for and that are stuck nowhere."""
    lost = [stuck for rank in tapes.present if (stuck := tapes.blocked_on(rank)) and stuck.status == "lost"]
    first = min(lost, key=lambda e: (e.issue_ns, e.rank), default=None)
    gone = tuple(rank for rank in tapes.waits_for(first) if tapes.has_finished(rank)) if first else ()
    if first is None or not gone:
        return None
    return Finding(d.DEAD, gone, first.issue_ns, (d.OMITTED,), first.group, first.seq, tuple(lost), _gone(gone))


def _gone(ranks: tuple[int, ...]) -> str:
    return f"{ranks_text(ranks)} stopped, and the peers lost the connection"


def _death(tapes: Tapes, rank: int) -> Event | None:
    end = tapes.ends.get(rank)
    if end is None:
        if tapes.has_exits and tapes.blocked_on(rank) is None:
            return tapes.events[rank][-1]  # its recording stops in the middle of its own work
        return None
    if end.status == "error" and tapes.told[rank] is not None:
        return None  # a victim: it heard of a failure before
    if any(event.op == "rendezvous" for event in tapes.events[rank]):
        return None
    return end if end.status in _WORDS else None


def _failures(tapes: Tapes) -> list[Event]:
    events = [e for rank in tapes.present for e in tapes.events[rank]]
    return [e for e in events if e.status in FAILED and e.status != "lost"]


def _words(tapes: Tapes, end: Event) -> str:
    step = f" at step {end.step}" if end.step >= 0 else ""
    return _WORDS.get(end.status, "fell silent without having finished") + step


def missed_rendezvous(tapes: Tapes) -> Finding | None:
    """Ranks waited for others that never came to `new_group` or `init_process_group`."""
    waits = [e for rank in tapes.present for e in tapes.events[rank] if e.op == "rendezvous" and e.status == "timeout"]
    if not waits:
        return None
    waiting = {event.rank for event in waits}
    absent = tuple(rank for rank in (*tapes.present, *tapes.missing) if rank not in waiting)
    if absent and set(absent) <= set(tapes.missing):
        return Finding(d.DEAD, absent, waits[0].issue_ns, (d.GROUP,), calls=tuple(waits), why=_no_trace(absent))
    is_tie = not absent
    culprits = tuple(sorted(set(absent) - set(tapes.missing) or waiting))
    found = Finding(d.GROUP, culprits, waits[0].issue_ns, (d.OMITTED,), calls=tuple(waits), is_tie=is_tie)
    if not is_tie:
        return found
    what = (
        f"{ranks_text(culprits).capitalize()} wait for each other and do not make the same process groups in one order"
    )
    return replace(found, what=what, advice=MAKE_IN_ONE_ORDER)


def missing_ranks(tapes: Tapes) -> Finding | None:
    """Somebody is in trouble, nothing that is there explains it, and a rank left no event at all."""
    stuck = [event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None]
    if not tapes.missing or not stuck:
        return None
    if found := _beside_missing(tapes, stuck):
        return found
    needed = {rank for event in stuck for rank in tapes.group_of(event).members}
    lost = tuple(rank for rank in tapes.missing if rank in needed) or tapes.missing
    first = min(stuck, key=lambda e: (e.issue_ns, e.rank))
    return Finding(
        d.DEAD, lost, first.issue_ns, group=first.group, seq=first.seq, calls=tuple(stuck), why=_no_trace(lost)
    )


def _beside_missing(tapes: Tapes, stuck: list[Event]) -> Finding | None:
    """A mistake of somebody else, to be seen when the one missing rank stands where others wait for it."""
    for event in stuck if len(tapes.missing) == 1 else ():
        [rank] = tapes.missing
        if event.is_collective and rank in tapes.group_of(event).members:
            whole = tapes.with_stand_in(rank, event)
            found = of_circle(whole, Waits.of(whole))
            if found and rank not in found.ranks and (found.kind == d.UNEVEN or _are_past(tapes, found, event)):
                there = [e for e in stuck if (e.group, e.seq) == (event.group, event.seq)]
                calls = tuple(e for e in stuck if e in found.calls or e in there)
                return replace(found, calls=calls, also=(*found.also, d.DEAD))
    return None


def _are_past(tapes: Tapes, found: Finding, event: Event) -> bool:
    """Whether those who are blamed for not being in `event` stand after it: they will not come to it any more."""
    stuck = [stuck for rank in found.ranks if (stuck := tapes.blocked_on(rank)) is not None]
    return all(is_past(call_of(other), call_of(event)) for other in stuck)


def _no_trace(ranks: tuple[int, ...]) -> str:
    return f"{ranks_text(ranks)} left no event at all"
