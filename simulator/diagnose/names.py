"""Ranks that mean different process groups by one name: they made the groups in different orders.

torch names a group by how many a rank has made before it, and looks at nothing else when the members meet.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import MAKE_IN_ONE_ORDER, Finding, ranks_text
from simulator.diagnose.tape import Group, Tapes
from simulator.trace import Event

_Claims = set[tuple[int, Group]]  # a rank, and a group that it made


def misnamed_group(tapes: Tapes) -> Finding | None:
    """Ranks are stuck in a group whose name stands for other members elsewhere, and that never worked."""
    stuck = tuple(event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None)
    for event in sorted(stuck, key=lambda e: (e.issue_ns, e.rank)):
        meant = [group for group in tapes.told_groups if group.name == event.group]
        pair = next(((a, b) for a, b in combinations(meant, 2) if _is_clash(a, b)), None)
        if pair and not _ever_worked(tapes, event.group):
            return _finding(tapes, event, stuck, pair)
    return None


def _finding(tapes: Tapes, event: Event, stuck: tuple[Event, ...], pair: tuple[Group, Group]) -> Finding:
    odd = _odd_ranks(_claims(tapes))
    ranks = odd if len(odd) == 1 else tuple(sorted({rank for group in pair for rank in group.members}))
    who = f"{ranks_text(ranks).capitalize()} did not make the process groups in one order"
    if len(ranks) == 1:
        who = f"{ranks_text(ranks).capitalize()} made the process groups in another order than the others"
    one, other = (ranks_text(group.members) for group in pair)
    what = f"{who}, or left one out (group {event.group} is {one} for some, {other} for others); it shows"
    also = (d.OMITTED, d.DEADLOCK_GROUPS)
    found = Finding(d.GROUP, ranks, event.issue_ns, also, event.group, event.seq, stuck, is_tie=len(ranks) > 1)
    return replace(found, what=what, advice=MAKE_IN_ONE_ORDER)


def _ever_worked(tapes: Tapes, name: str) -> bool:
    return any(e.group == name and e.status == "ok" for rank in tapes.present for e in tapes.calls[rank])


def _is_clash(a: Group, b: Group) -> bool:
    """One name, other members; apart, they may be the groups of a device mesh."""
    return a.name == b.name and a.members != b.members and bool(set(a.members) & set(b.members))


def _claims(tapes: Tapes) -> _Claims:
    """Which rank made which group under which name, where that is certain."""
    told = tapes.told_groups
    found: _Claims = set()
    for rank in tapes.present:
        for name in {event.group for event in tapes.calls[rank]}:
            meant = [group for group in told if group.name == name and rank in group.members]
            found |= {(rank, group) for group in meant if len(meant) == 1}
    sure = frozenset(found)
    for group in told:
        could = [rank for rank in group.members if all(rank != r or not _excludes(g, group) for r, g in sure)]
        found |= {(rank, group) for rank in could if len(could) == 1}
    return found


def _excludes(a: Group, b: Group) -> bool:
    """Whether a rank that made the one did not make the other: one name is one group, and the other way round."""
    return (a.name == b.name) != (a.members == b.members)


def _odd_ranks(claims: _Claims) -> tuple[int, ...]:
    """The ranks without whom the others agree; none where nobody disagrees."""
    at_odds = {(r, q) for r, a in claims for q, b in claims if r != q and (_is_clash(a, b) or _is_renamed(a, b))}
    ranks = sorted({rank for pair in at_odds for rank in pair})
    return tuple(rank for rank in ranks if all(rank in pair for pair in at_odds))


def _is_renamed(a: Group, b: Group) -> bool:
    return a.members == b.members and a.name != b.name
