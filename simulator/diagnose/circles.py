"""A circle of waits: which class it is, and who is odd in it.

Everybody did the same as far as it got, so what is left is where each rank stands: in messages only, in one line but
two groups, in another iteration of a loop, before all others, or simply in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding, departure_text
from simulator.diagnose.reading import is_new_iteration, is_past
from simulator.diagnose.repair import Waits
from simulator.diagnose.tape import Tapes, call_of
from simulator.trace import Event


def of_circle(tapes: Tapes, waits: Waits) -> Finding | None:
    """The most telling reading whose undoing would free everybody; None where the ranks are in no circle."""
    circle = waits.circle()
    if not circle:
        return None
    calls = tuple(waits.stuck[rank] for rank in circle)
    admitted = map(waits.among(circle).admit, _readings(tapes, calls))
    return next(filter(None, admitted), _everybody(calls))  # more than one mistake: everybody


def _readings(tapes: Tapes, calls: tuple[Event, ...]) -> Iterator[Finding]:
    """What the places where ranks stand suggest, most telling first."""
    messages = [event for event in calls if event.is_p2p]
    if len(messages) < len(calls):
        for suggest in (_once_too_often, _one_line, _left_the_loop, _alone):
            if found := suggest(tapes, calls):
                yield found
        yield from _odd_ones(tapes, calls) if messages else ()
        yield _another_order(tapes, calls)


def _everybody(calls: tuple[Event, ...]) -> Finding:
    messages = [event for event in calls if event.is_p2p]
    kind, why = (d.DEADLOCK_P2P, _message_words(calls)) if messages else (d.DEADLOCK_GROUPS, "")
    at = min(event.issue_ns for event in calls)
    ranks = tuple(event.rank for event in calls)
    advice = "Pass the same tag to send and to recv." if why else ""
    is_tie = len(messages) < len(calls)
    return Finding(kind, ranks, at, (d.OMITTED,), calls=calls, why=why, is_tie=is_tie, advice=advice)


def _another_order(tapes: Tapes, calls: tuple[Event, ...]) -> Finding:
    """Each made some of the calls; those that are already past the place of a call that they did not make are odd."""
    ranks, is_tie = _skippers(tapes, calls) or _minority(tapes, calls)
    first = min((e for e in calls if e.rank in ranks), key=lambda e: (e.issue_ns, e.rank))
    kind: str = d.DEADLOCK_GROUPS
    also: tuple[str, ...] = (d.OMITTED, d.EXTRA, d.BRANCH) if is_tie else (d.OMITTED, d.SWAPPED, d.GROUP)
    are_ahead = all(a.step > b.step for a in calls for b in calls if a.rank in ranks and b.rank not in ranks)
    if not is_tie and (are_ahead or any(_was_ahead(tapes, rank) for rank in ranks)):
        kind, also = d.OMITTED, (d.DEADLOCK_GROUPS,)  # it is in a later step: another order would not take it there
        first = next(e for e in calls if e.rank not in ranks)
    why = ""
    if is_tie and any(e.is_p2p for e in calls if e.rank in ranks):
        kind, also = d.OMITTED, (d.EXTRA, d.BRANCH, d.DEADLOCK_P2P)
    if is_tie and (departed := _departed(tapes, tuple(e for e in calls if e.rank in ranks))):
        first, why = departed, departure_text((departed.rank,))
        if left_out := _left_out(tapes, departed, calls):
            kind, also, first, why = d.OMITTED, (d.EXTRA, d.BRANCH, d.DEADLOCK_GROUPS), left_out, ""
        elif all(e.site != first.site for rank in tapes.present if rank != first.rank for e in tapes.calls[rank]):
            kind, also = d.BRANCH, (d.EXTRA, d.OMITTED, d.DEADLOCK_GROUPS)
    at = min(event.issue_ns for event in calls)
    return Finding(kind, ranks, at, also, first.group, first.seq, calls, why, is_tie)


def _departed(tapes: Tapes, calls: tuple[Event, ...]) -> Event | None:
    """The one call that never followed the one before it earlier in the run, on any of these ranks; the others did."""
    steps = {event.rank: list(pairwise(tapes.calls[event.rank])) for event in calls}
    known = {_step_key(x, y) for pairs in steps.values() for x, y in pairs if y not in calls}
    new = [e for e in calls if all(y != e or _step_key(x, y) not in known for x, y in steps[e.rank])]
    return new[0] if len(new) == 1 < len(calls) else None


def _step_key(x: Event, y: Event) -> tuple[str, str, str, str, bool]:
    return x.site, x.op, y.site, y.op, x.step == y.step


def _left_out(tapes: Tapes, departed: Event, calls: tuple[Event, ...]) -> Event | None:
    """The call in which another rank is stuck, if the departed one made it in an earlier step, and in that step made
    others and went past it.
    """
    mine = [e for e in tapes.calls[departed.rank] if e.n < departed.n]
    for event in (e for e in calls if e.is_collective and e.rank != departed.rank):
        now = {e.site for e in mine if e.step == event.step >= 0}
        knows = any(e.site == event.site and e.step < event.step for e in mine)
        is_member = departed.rank in tapes.groups[tapes.group_of(event)]
        if is_member and knows and now and event.site not in now and is_past(call_of(departed), call_of(event)):
            return event
    return None


def _was_ahead(tapes: Tapes, rank: int) -> bool:
    """Whether a call of it met calls that all others made in an earlier step."""
    for rows in (rows for rows in tapes.groups.values() if rank in rows and len(rows) > 2):
        for met in zip(*rows.values(), strict=False):
            mine = next(e for e in met if e.rank == rank)
            if all(e.step < mine.step for e in met if e.rank != rank):
                return True
    return False


def _skippers(tapes: Tapes, calls: tuple[Event, ...]) -> tuple[tuple[int, ...], bool] | None:
    """Ranks that stand later in the program than a call of theirs that others are in; by the largest such group."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for event in calls:
        rows, here = tapes.groups[tapes.group_of(event)], call_of(event)
        absent = [e for e in calls if e.rank in rows and len(rows[e.rank]) <= event.seq]
        past = tuple(e.rank for e in absent if is_past(call_of(e), here))
        if past:
            found.append((len(rows), past if 2 * len(past) < len(rows) else tuple(sorted(rows))))
    if not found:
        return None
    size, ranks = max(found, key=lambda item: (item[0], [-rank for rank in item[1]]))
    return ranks, 2 * len(ranks) >= size


def _odd_ones(tapes: Tapes, calls: tuple[Event, ...]) -> list[Finding]:
    """In a circle through a message: minorities that came, or did not come, to a collective; the smallest first."""
    found: list[tuple[float, Finding]] = []
    for event in (e for e in calls if e.is_collective):
        group = tapes.group_of(event)
        rows = tapes.groups[group]
        came = _came_to(tapes, event)
        odd = min(came, set(rows) - came, key=len)
        if 2 * len(odd) < len(rows):
            kind, also = _class_of_odd(tapes, calls, event, came == odd)
            if came == odd and all(is_past(call_of(event), call_of(e)) for e in calls if e.rank not in odd):
                kind, also = d.OMITTED, (d.SWAPPED, d.DEADLOCK_GROUPS, d.DEADLOCK_P2P)  # it went past the others
            shown = tuple(e for e in calls if e.rank in rows)
            one = Finding(kind, tuple(sorted(odd)), event.issue_ns, also, group.name, event.seq, shown)
            found.append((len(odd) / len(rows), one))
    return [one for _, one in sorted(found, key=lambda item: (item[0], item[1].at_ns, item[1].group))]


def _class_of_odd(tapes: Tapes, calls: tuple[Event, ...], event: Event, came: bool) -> tuple[str, tuple[str, ...]]:
    rows = tapes.groups[tapes.group_of(event)]
    before = [call_of(e) for e in rows[event.rank][: event.seq]]
    are_inside = any(_is_in_iteration(tapes, e, event.step) for e in calls if len(rows.get(e.rank, ())) <= event.seq)
    if is_new_iteration(call_of(event), before) and not are_inside:
        return d.UNEVEN, (d.EXTRA if came else d.OMITTED, d.DEADLOCK_P2P)
    if not came:
        return d.OMITTED, (d.UNEVEN, d.DEADLOCK_P2P)
    others = {e.site for rank, events in rows.items() if rank != event.rank for e in events}
    kinds = (d.EXTRA, d.BRANCH) if event.site in others else (d.BRANCH, d.EXTRA)
    return kinds[0], (kinds[1], d.DEADLOCK_P2P)


def _is_in_iteration(tapes: Tapes, event: Event, step: int) -> bool:
    """Whether its rank was, in this step, at a line where it was in an earlier one."""
    earlier = {(e.site, e.op) for e in tapes.calls[event.rank] if e.step < step}
    return step >= 0 and any((e.site, e.op) in earlier for e in tapes.calls[event.rank] if e.step == step)


def _left_the_loop(tapes: Tapes, calls: tuple[Event, ...]) -> Finding | None:
    """In a circle: some begin another iteration, others are, after a whole one, at a line that nobody was at before."""
    now = {(e.site, e.step) for e in calls if e.step >= 0}
    earlier = [e for rank in tapes.present for e in tapes.calls[rank] if (e.site, e.step) not in now and e not in calls]
    past = {(e.site, e.op) for e in earlier}
    out = {e.rank for e in calls if (e.site, e.op) not in past and tapes.is_after_whole_step(e)}
    out |= {rank for e in calls if e.rank in out and e.is_collective for rank in _came_to(tapes, e)}
    for event in (e for e in calls if e.is_collective and e.rank not in out):
        rows = tapes.groups[tapes.group_of(event)]
        elsewhere = [e for e in calls if tapes.group_of(e) != tapes.group_of(event) or e.is_p2p]
        if not elsewhere or not all(_fits_end(e, event, e.rank in out) for e in elsewhere):
            continue
        before = [call_of(e) for e in rows[event.rank][: event.seq]]
        if is_new_iteration(call_of(event), before) or (
            call_of(event).key in {call.key for call in before}
            and all(event.step > e.step for e in elsewhere if e.rank in out)
        ):
            inside = _came_to(tapes, event) | {e.rank for e in elsewhere} - out
            odd, is_tie = _smaller(inside, (set(rows) | out) - inside)
            kind: str = d.UNEVEN
            also: tuple[str, ...] = (d.OMITTED, d.EXTRA, d.BRANCH, d.DEADLOCK_GROUPS)
            if set(odd) == inside and [call.key for call in before].count(call_of(event).key) == 1:
                kind, also = d.OMITTED, (d.UNEVEN, d.DEADLOCK_GROUPS)  # one iteration: where does the body end?
            return Finding(kind, odd, event.issue_ns, also, event.group, event.seq, calls, is_tie=is_tie)
    return None


def _once_too_often(tapes: Tapes, calls: tuple[Event, ...]) -> Finding | None:
    """A rank stands at a line that it, and everybody else in the group, has already passed in this step."""
    for event in (e for e in calls if e.is_collective and e.site):
        group = tapes.group_of(event)
        counts = {
            rank: sum((e.site, e.step) == (event.site, event.step) for e in events[: event.seq + 1])
            for rank, events in tapes.groups[group].items()
        }
        mine, most = counts.pop(event.rank), max(counts.values(), default=0)
        before = [e for e in tapes.calls[event.rank] if e.n < event.n]
        if mine == most + 1 > 1 and (event.step >= 0 or before[-1].site == event.site):
            is_tie = len(group.members) == 2
            ranks = group.members if is_tie else (event.rank,)
            also = (d.OMITTED, d.DEADLOCK_GROUPS)
            return Finding(d.EXTRA, ranks, event.issue_ns, also, event.group, event.seq, calls, is_tie=is_tie)
    return None


def _alone(tapes: Tapes, calls: tuple[Event, ...]) -> Finding | None:
    """In a circle through groups: a rank stands alone at a line before all the lines where the others stand."""
    for event in (e for e in calls if e.is_collective and len(tapes.groups[tapes.group_of(e)]) > 2):
        here = call_of(event)
        visitors = {rank for rank in tapes.present for e in tapes.calls[rank] if e.site == event.site}
        rest = [call_of(e) for e in calls if e.rank != event.rank]
        if visitors == {event.rank} and all(
            c.file == here.file and (c.step, c.line) > (here.step, here.line) for c in rest
        ):
            also = (d.EXTRA, d.OMITTED, d.DEADLOCK_GROUPS)
            return Finding(d.BRANCH, (event.rank,), event.issue_ns, also, event.group, event.seq, calls)
    return None


def _fits_end(other: Event, event: Event, is_out: bool) -> bool:
    """Outside of the loop it has not been in the step that `event` begins; inside it is in that step."""
    if is_out:
        return other.step < event.step or event.step < 0
    return 0 <= other.step == event.step


def _came_to(tapes: Tapes, event: Event) -> set[int]:
    return {rank for rank, events in tapes.groups[tapes.group_of(event)].items() if len(events) > event.seq}


def _smaller(a: set[int], b: set[int]) -> tuple[tuple[int, ...], bool]:
    """The smaller set; both, and True, in a tie."""
    if len(a) == len(b):
        return tuple(sorted(a | b)), True
    return tuple(sorted(a if len(a) < len(b) else b)), False


def _one_line(tapes: Tapes, calls: tuple[Event, ...]) -> Finding | None:
    """One line, in one step, stands in two groups, and a rank of the one belongs to the other: the wrong group."""
    pairs = [
        (a, b)
        for a in calls
        for b in calls
        if a.site and (a.site, a.step) == (b.site, b.step) and tapes.group_of(a) != tapes.group_of(b)
        if a.rank in tapes.group_of(b).members
    ]
    if not pairs:
        return None
    both_ways = any((b, a) in pairs for a, b in pairs)
    ranks, is_tie = _minority(tapes, calls) if both_ways else (tuple(sorted({a.rank for a, _ in pairs})), False)
    first = min((e for e in calls if e.rank in ranks), key=lambda e: (e.issue_ns, e.rank))
    at = min(event.issue_ns for event in calls)
    if not is_tie and len(ranks) == len(calls):  # each waits for the next one: there are no others to be different from
        also = (d.GROUP, d.OMITTED)
        return Finding(d.DEADLOCK_GROUPS, ranks, at, also, first.group, first.seq, calls, is_tie=True)
    return Finding(d.GROUP, ranks, at, (d.DEADLOCK_GROUPS,), first.group, first.seq, calls, is_tie=is_tie)


def _minority(tapes: Tapes, calls: tuple[Event, ...]) -> tuple[tuple[int, ...], bool]:
    """Of the ranks that belong to every group of the circle: those in the group where fewer wait; all in a tie."""
    groups = {tapes.group_of(event) for event in calls}
    shared = {rank for rank in (e.rank for e in calls) if all(rank in group.members for group in groups)}
    waiting = {
        group: sorted(e.rank for e in calls if e.rank in shared and tapes.group_of(e) == group) for group in groups
    }
    waiting = {group: ranks for group, ranks in waiting.items() if ranks}
    if len(waiting) < 2:
        return tuple(sorted(e.rank for e in calls)), True
    fewest = min(map(len, waiting.values()))
    odd = [ranks for ranks in waiting.values() if len(ranks) == fewest]
    if len(odd) > 1:
        return tuple(sorted(shared)), True
    return tuple(odd[0]), False


def _message_words(calls: tuple[Event, ...]) -> str:
    """What a reader would overlook: the two ends are there, but with different tags."""
    for send in (e for e in calls if e.op == "send"):
        for receive in (e for e in calls if e.op == "recv" and e.rank == send.peer and e.peer == send.rank):
            if send.tag != receive.tag:
                return (
                    f"rank {send.rank} sends with tag {send.tag}, rank {receive.rank} receives with tag {receive.tag}"
                )
    return ""
