"""Who agrees with whom: the members of one group, and the sequence that most of them follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import NamedTuple

from simulator.diagnose.align import Edit, align
from simulator.diagnose.tape import Call


class Member(NamedTuple):
    """One distinct sequence of calls; `is_open`: its ranks were stopped and would have called more."""

    calls: tuple[Call, ...]
    is_open: bool


class Split(NamedTuple):
    """The majority's sequence, and how each other sequence parts from it.

    `odd`: the ranks that part, by their sequence. `is_tie`: as many ranks stand behind another sequence.
    `is_habit_broken`: the reference goes on more as ranks did earlier in the run than the others do.
    """

    reference: Member
    odd: dict[Member, tuple[int, ...]]
    edits: dict[Member, list[Edit]]
    is_tie: bool
    is_habit_broken: bool


def split(sequences: dict[int, Member], waits_for: Mapping[int, Collection[int]]) -> Split | None:
    """Part the ranks into a majority and the others; None where all agree. Does not depend on rank numbers.

    A rank that was stopped early agrees with several sequences. It does not count for those of ranks that it waits for.
    """
    ranks: dict[Member, list[int]] = {}
    for rank, member in sorted(sequences.items()):
        ranks.setdefault(member, []).append(rank)
    pairs = {(a, b): _compare(a, b) for a in ranks for b in ranks if a != b}
    parting = [a for a in ranks if any(a != b and _diverges(pairs[a, b][1]) for b in ranks)]
    if not parting:
        return None
    support = {
        a: sum(
            a == b or not (_diverges(pairs[a, b][1]) or set(waits_for.get(rank, ())) & set(ranks[a]))
            for b in ranks
            for rank in ranks[b]
        )
        for a in parting
    }
    costs = {a: sum(len(ranks[b]) * pairs[a, b][0] for b in ranks if a != b) for a in parting}
    habit = {a: _habit(a, ranks.keys()) for a in parting}
    reference = min(parting, key=lambda a: (-support[a], -habit[a], costs[a], -len(a.calls), a))
    odd = {b: tuple(ranks[b]) for b in parting if b != reference and _diverges(pairs[reference, b][1])}
    is_tie = any(support[b] >= support[reference] for b in odd)
    is_habit_broken = all(habit[reference] > habit[b] for b in odd)
    return Split(reference, odd, {b: pairs[reference, b][1] for b in odd}, is_tie, is_habit_broken)


def _habit(member: Member, members: Collection[Member]) -> int:
    """How usual its last call is after the one before: 2 where it followed it earlier in the run, too, on any rank; 0
    where the same line called the same twice in one step, as never before; else 1.
    """
    followed = [(x.key, y.key, x.step == y.step) for x, y in pairwise(member.calls)]
    earlier = {(x.key, y.key, x.step == y.step) for m in members for x, y in pairwise(m.calls[:-1])}
    if not followed or any(m != member and m.calls[: len(member.calls)] == member.calls for m in members):
        return 1  # it made no call yet where the others part from it
    before, last, is_one_step = followed[-1]
    if followed[-1] in earlier:
        return 2
    return 0 if before == last and is_one_step else 1


def _compare(a: Member, b: Member) -> tuple[float, list[Edit]]:
    return align(a.calls, b.calls, reference_open=a.is_open, other_open=b.is_open)


def _diverges(edits: list[Edit]) -> bool:
    return any(edit.is_divergence for edit in edits)
