"""The first place where the members of a group call different things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.diagnose import diagnosis as d
from simulator.diagnose.clusters import Member, Split, split
from simulator.diagnose.finding import Finding, departure_text
from simulator.diagnose.reading import Odd, Reading, read
from simulator.diagnose.tape import Group, Tapes, call_of
from simulator.trace import FAILED, Event


def divergences(tapes: Tapes) -> Iterator[Finding]:
    """One finding for each group in trouble whose members' sequences part."""
    waits_for = {rank: tapes.waits_for(stuck) for rank in tapes.present if (stuck := tapes.blocked_on(rank))}
    for group, rows in tapes.groups.items():
        if len(rows) > 1 and is_in_trouble(tapes, rows):
            sequences = {
                rank: Member(tuple(map(call_of, events)), not tapes.has_finished(rank)) for rank, events in rows.items()
            }
            if parted := split(sequences, waits_for):
                yield _finding(tapes, group, rows, parted)


def is_in_trouble(tapes: Tapes, rows: dict[int, list[Event]]) -> bool:
    """A call failed, somebody is stuck here, or members that finished made different numbers of calls."""
    if any(event.status in FAILED for events in rows.values() for event in events):
        return True
    if any((stuck := tapes.blocked_on(rank)) is not None and stuck in events for rank, events in rows.items()):
        return True
    if len({len(events) for rank, events in rows.items() if tapes.has_finished(rank)}) > 1:
        return True
    return not tapes.is_checked and _disagree(rows)


def _disagree(rows: dict[int, list[Event]]) -> bool:
    """Completed, but not alike: where nobody checks (gloo), data is silently wrong."""
    return any(len({call_of(event).signature for event in row}) > 1 for row in zip(*rows.values(), strict=False))


def _finding(tapes: Tapes, group: Group, rows: dict[int, list[Event]], parted: Split) -> Finding:
    firsts = {member: next(e for e in edits if e.is_divergence) for member, edits in parted.edits.items()}
    earliest = min(edit.i for edit in firsts.values())
    odd = sorted((m for m, edit in firsts.items() if edit.i == earliest), key=lambda m: (-len(parted.odd[m]), m))
    culprits = tuple(sorted(rank for member in odd for rank in parted.odd[member]))
    member, edit = odd[0], firsts[odd[0]]
    others = [rank for rank in rows if rank not in culprits]
    elsewhere = {e.site for rank in others for e in rows[rank]}
    alone = {e.site for rank in culprits for e in rows[rank]} - elsewhere
    theirs = [rows[r][edit.j] for r in culprits if edit.j < len(rows[r])]
    in_a_body = not all(map(tapes.is_after_whole_step, theirs))
    reading = read(parted.edits[member], parted.reference.calls, member.calls, Odd(alone, in_a_body))
    calls = [rows[r][edit.i] for r in others if edit.i < len(rows[r])] + theirs
    calls.sort(key=lambda e: e.rank)
    why = ""
    if parted.is_tie:
        why = departure_text(culprits) if parted.is_habit_broken else ""
        reading, culprits = _of_tie(reading, parted.is_habit_broken), tuple(sorted(rows))
    return Finding(
        reading.kind,
        culprits,
        _since(calls),
        reading.also,
        group.name,
        edit.j if edit.kind == "added" else edit.i,
        tuple(calls),
        why,
        parted.is_tie,
    )


def _of_tie(reading: Reading, is_habit_broken: bool) -> Reading:
    """Without a majority a call left out here is a call too many there; what ranks did before says what is likelier."""
    one_sided = (d.OMITTED, d.EXTRA, d.BRANCH)
    if reading.kind not in one_sided:
        return reading
    kind = reading.kind if is_habit_broken else d.OMITTED
    names = dict.fromkeys((*one_sided, d.SWAPPED, *reading.also))
    return Reading(kind, tuple(name for name in names if name != kind))


def _since(calls: Sequence[Event]) -> int:
    return min((e.issue_ns for e in calls), default=0)
