"""Whether undoing one mistake would free ranks that wait for each other.

A circle of waits has many edges, and not every rank in it can have made the mistake: a reading holds only if the ranks
that remain, once it is undone, no longer wait for each other. A rank past its last recorded call is free: nobody knows
that it would not have come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding
from simulator.diagnose.tape import Tapes
from simulator.trace import Event


@dataclass(frozen=True)
class Waits:
    """Who stands where (`stuck`), and for whom each of them waits (`targets`)."""

    stuck: Mapping[int, Event]
    targets: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, tapes: Tapes) -> Waits:
        stuck = {rank: event for rank in tapes.present if (event := tapes.blocked_on(rank)) is not None}
        return cls(stuck, {rank: tapes.waits_for(event) for rank, event in stuck.items()})

    def among(self, ranks: Collection[int]) -> Waits:
        """Only these ranks: others may be in a circle of their own."""
        stuck = {rank: self.stuck[rank] for rank in ranks}
        return Waits(stuck, {rank: self.targets[rank] for rank in ranks})

    def circle(self) -> tuple[int, ...]:
        """The ranks of the largest set in which everybody waits, at one or more removes, for everybody."""
        reach = {rank: self._reachable(rank) for rank in self.targets}
        circles = {tuple(sorted(r for r in reach[rank] if rank in reach[r])) for rank in reach if rank in reach[rank]}
        return max(circles, key=lambda c: (len(c), [-r for r in c]), default=())

    def _reachable(self, rank: int) -> set[int]:
        seen: set[int] = set()
        todo = [rank]
        while todo:
            new = {target for target in self.targets.get(todo.pop(), ()) if target in self.targets} - seen
            seen |= new
            todo += new
        return seen

    def admit(self, found: Finding) -> Finding | None:
        """`found`, if it could be the one mistake; of a tie, the ranks that could each have made it alone."""
        if not found.is_tie:
            return found if self._explained_by(found.kind, found.ranks) else None
        ranks = tuple(rank for rank in found.ranks if self._explained_by(found.kind, (rank,), is_tie=True))
        return replace(found, ranks=ranks, is_tie=len(ranks) > 1) if ranks else None

    def _explained_by(self, kind: str, ranks: Collection[int], *, is_tie: bool = False) -> bool:
        """In a tie, a call too many of one is a call left out by another."""
        if kind in (d.EXTRA, d.BRANCH) and not is_tie:
            return self._free_without(ranks)
        if kind == d.OMITTED and not is_tie:
            return self._free_had_they_come(ranks)
        return self._free_without(ranks) or self._free_had_they_come(ranks)

    def _free_without(self, ranks: Collection[int]) -> bool:
        """Had these ranks not made the call in which they stand, they would have gone on."""
        return not self._with({rank: targets for rank, targets in self.targets.items() if rank not in ranks}).circle()

    def _free_had_they_come(self, ranks: Collection[int]) -> bool:
        """Had these ranks come, before the call in which they stand, to the calls that wait for them alone; or to one
        that waits for others, too.
        """
        alone = [rank for rank, targets in self.targets.items() if rank not in ranks and set(targets) <= set(ranks)]
        freed = self._with({rank: targets for rank, targets in self.targets.items() if rank not in alone})
        if alone and not freed.circle():
            return True
        waiting = [rank for rank, targets in self.targets.items() if rank not in ranks and set(ranks) < set(targets)]
        return any(not self._had_they_come(ranks, rank).circle() for rank in waiting)

    def _had_they_come(self, ranks: Collection[int], waiting: int) -> Waits:
        """All who are in the call then wait for the rest."""
        rest = tuple(target for target in self.targets[waiting] if target not in ranks)
        at_it = [rank for rank in self.stuck if self._are_in_one_call(rank, waiting)]
        return self._with({**self.targets, **dict.fromkeys((*at_it, *ranks), rest)})

    def _are_in_one_call(self, one: int, other: int) -> bool:
        a, b = self.stuck[one], self.stuck[other]
        same = a.is_collective and (a.group, a.seq) == (b.group, b.seq) and self.targets[one] == self.targets[other]
        return same or one == other

    def _with(self, targets: Mapping[int, tuple[int, ...]]) -> Waits:
        return replace(self, targets=targets)
