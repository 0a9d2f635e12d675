"""Alignment of two ranks' calls: the cheapest story of how one sequence became the other.

A collective left out in the middle makes every later one pair with the wrong partner, so comparing position by position
finds the last consequence, not the cause. This is the edit distance of Levenshtein with Damerau's transposition, costs
that know call sites and training steps, and free ends: a rank that was stopped would have called more. Banded: ranks
that are more than `BAND` calls apart are not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from simulator.diagnose.tape import Call

BAND: Final = 24
Kind = Literal["same", "soft", "argument", "replaced", "swapped", "left out", "added"]

# Costs in tenths of a call. A call left out or added costs 10; the others say what is more and what is less likely.
_GAP, _TAIL_MORE = 10, 5  # of several calls missing at the end, the later ones are consequences of the first
_OTHER_STEP = 5
_BRANCH = 1  # the same call from another line, where neither rank ever visits the other's line: if/else
_MOVED = 12  # the same call from a line that the other rank visits elsewhere
_ARGUMENT = 8  # the same line with another shape, dtype, ...
_REPLACED = 15  # another line and other arguments
_SWAP = 10
_MATCH_BONUS = 1 / 1024  # of two equally cheap stories, the one that explains more calls


class Edit(NamedTuple):
    """`i`, `j`: positions in the reference and in the other sequence."""

    kind: Kind
    i: int
    j: int

    @property
    def is_divergence(self) -> bool:
        return self.kind not in ("same", "soft")


def align(
    reference: Sequence[Call], other: Sequence[Call], *, reference_open: bool, other_open: bool
) -> tuple[float, list[Edit]]:
    """The cost and the edits that lead from `reference` to `other`; an open sequence may go on after its end."""
    start = _common_prefix(reference, other)
    table = _Table(reference, other, start)
    cost, edits = table.solve(reference_open, other_open)
    same = [Edit("same", k, k) for k in range(start)]
    return cost, same + [Edit(e.kind, e.i + start, e.j + start) for e in edits]


def _common_prefix(a: Sequence[Call], b: Sequence[Call]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


class _Table:
    """Dynamic programming over (i, j): the cheapest way to explain i calls of `a` and j of `b`, from `start` on."""

    def __init__(self, a: Sequence[Call], b: Sequence[Call], start: int) -> None:
        self.a_sites, self.b_sites = {call.site for call in a}, {call.site for call in b}  # before `start`, too
        self.a, self.b = a[start:], b[start:]
        self.cost: dict[tuple[int, int], float] = {(0, 0): 0.0}
        self.back: dict[tuple[int, int], tuple[int, int, Kind]] = {}

    def solve(self, a_open: bool, b_open: bool) -> tuple[float, list[Edit]]:
        n, m = len(self.a), len(self.b)
        for i in range(n + 1):
            for j in range(max(0, i - BAND), min(m, i + BAND) + 1):
                self._fill(i, j)
        ends = [(self.cost[n, j] + _tail(m - j, a_open), j - m, n, j) for j in range(m + 1) if (n, j) in self.cost]
        ends += [(self.cost[i, m] + _tail(n - i, b_open), i - n, i, m) for i in range(n) if (i, m) in self.cost]
        if not ends:  # outside the band: too far apart to be compared
            return float(_GAP * abs(n - m)), []
        cost, _, i, j = min(ends)
        edits = self._trace(i, j)
        edits += [Edit("left out", k, j) for k in range(i, n) if not b_open]
        edits += [Edit("added", i, k) for k in range(j, m) if not a_open]
        return cost, edits

    def _fill(self, i: int, j: int) -> None:
        options: list[tuple[float, int, int, Kind]] = []
        if i and j and (before := self.cost.get((i - 1, j - 1))) is not None:
            cost, kind = self._substitution(self.a[i - 1], self.b[j - 1])
            options.append((before + cost, i - 1, j - 1, kind))
        if i > 1 and j > 1 and self._is_swap(i, j) and (before := self.cost.get((i - 2, j - 2))) is not None:
            options.append((before + _SWAP, i - 2, j - 2, "swapped"))
        if i and (before := self.cost.get((i - 1, j))) is not None:
            options.append((before + _GAP, i - 1, j, "left out"))
        if j and (before := self.cost.get((i, j - 1))) is not None:
            options.append((before + _GAP, i, j - 1, "added"))
        if options:
            cost, pi, pj, kind = min(options, key=lambda option: option[0])
            self.cost[i, j], self.back[i, j] = cost, (pi, pj, kind)

    def _substitution(self, x: Call, y: Call) -> tuple[float, Kind]:
        if x == y:
            return -_MATCH_BONUS, "same"
        step = _OTHER_STEP if x.step != y.step else 0
        if x.signature == y.signature:
            if x.site == y.site:
                return step, "soft"
            is_branch = x.site not in self.b_sites and y.site not in self.a_sites
            return step + (_BRANCH if is_branch else _MOVED), "soft"
        return (step + _ARGUMENT, "argument") if x.site == y.site and x.site else (step + _REPLACED, "replaced")

    def _is_swap(self, i: int, j: int) -> bool:
        return self.a[i - 2] == self.b[j - 1] and self.a[i - 1] == self.b[j - 2] and self.a[i - 1] != self.a[i - 2]

    def _trace(self, i: int, j: int) -> list[Edit]:
        edits: list[Edit] = []
        while (i, j) != (0, 0):
            i, j, kind = self.back[i, j]
            edits.append(Edit(kind, i, j))
        return edits[::-1]


def _tail(length: int, is_open: bool) -> float:
    return 0 if is_open or not length else _GAP + _TAIL_MORE * (length - 1)
