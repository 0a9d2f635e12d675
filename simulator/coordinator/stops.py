"""Ranks that end while they wait: a preempted one when its grace is over, the others when an agent stops the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from simulator import wire
from simulator.coordinator.decision import GRACE, STOP, Decision
from simulator.coordinator.state import BLOCKED, RankState


class Stops:
    """`agent`: whether an agent watches the ranks, which stops all of them when one has failed."""

    def __init__(
        self, ranks: Sequence[RankState], outbox: Sequence[list[wire.Reply]], detection_ns: int, agent: bool
    ) -> None:
        self._ranks, self._outbox, self._detection_ns, self._agent = ranks, outbox, detection_ns, agent

    def decisions(self) -> Iterator[Decision]:
        """One for every rank whose main thread waits, and which ends if nothing comes before."""
        failed = [rank.clock_ns for rank in self._ranks if rank.is_lost] if self._agent else []
        for rank in self._ranks:
            if not rank.is_here or rank.main.status != BLOCKED:
                continue
            if rank.dies_ns >= 0:
                yield self._end(rank, "killed", GRACE, rank.dies_ns)
            if failed:
                yield self._end(rank, "stopped", STOP, min(failed) + self._detection_ns)

    def _end(self, rank: RankState, why: Literal["killed", "stopped"], priority: int, at_ns: int) -> Decision:
        def end() -> None:
            self._outbox[rank.rank].append(wire.Die(why, max(at_ns, rank.clock_ns)))
            rank.main.advance(at_ns)
            rank.main.resume()

        return Decision(at_ns, priority, rank.rank, end)
