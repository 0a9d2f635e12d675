"""Who agrees with whom: the members of one group, and the sequence that most of them follow."""

from __future__ import annotations

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
    """

    reference: Member
    odd: dict[Member, tuple[int, ...]]
    edits: dict[Member, list[Edit]]
    is_tie: bool


def split(sequences: dict[int, Member]) -> Split | None:
    """Part the ranks into a majority and the others; None where all agree. Does not depend on rank numbers."""
    ranks: dict[Member, list[int]] = {}
    for rank, member in sorted(sequences.items()):
        ranks.setdefault(member, []).append(rank)
    if len(ranks) < 2:
        return None
    pairs = {(a, b): _compare(a, b) for a in ranks for b in ranks if a != b}
    support = {a: sum(len(ranks[b]) for b in ranks if a == b or not _diverges(pairs[a, b][1])) for a in ranks}
    costs = {a: sum(len(ranks[b]) * pairs[a, b][0] for b in ranks if a != b) for a in ranks}
    reference = min(ranks, key=lambda a: (-support[a], costs[a], -len(a.calls), a))
    odd = {b: tuple(ranks[b]) for b in ranks if b != reference and _diverges(pairs[reference, b][1])}
    if not odd:
        return None
    is_tie = any(support[b] >= support[reference] for b in odd)
    return Split(reference, odd, {b: pairs[reference, b][1] for b in odd}, is_tie)


def _compare(a: Member, b: Member) -> tuple[float, list[Edit]]:
    return align(a.calls, b.calls, reference_open=a.is_open, other_open=b.is_open)


def _diverges(edits: list[Edit]) -> bool:
    return any(edit.is_divergence for edit in edits)
