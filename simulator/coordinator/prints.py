"""Lines that ranks print, put into the order of virtual time.

Ranks print when the operating system lets them; a student sees (virtual time, rank, position). A line is passed on as
soon as no rank that is still here can print an earlier one, so output is live and in the same order every time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from simulator import wire
from simulator.coordinator.state import RankState


class PrintQueue:
    def __init__(self, ranks: Sequence[RankState]) -> None:
        self._ranks = ranks
        self._heap: list[tuple[int, int, str, int, str]] = []
        self._count = 0

    def add(self, rank: int, record: wire.Print) -> None:
        self._count += 1
        heapq.heappush(self._heap, (record.now_ns, rank, record.thread, self._count, record.text))

    def ready(self, *, everything: bool = False) -> list[tuple[int, str]]:
        """(rank, text) of what can be shown now."""
        out = []
        while self._heap and (everything or self._is_settled(self._heap[0][0], self._heap[0][1])):
            _, rank, _, _, text = heapq.heappop(self._heap)
            out.append((rank, text))
        return out

    def _is_settled(self, now_ns: int, rank: int) -> bool:
        return all((other.earliest_ns, other.rank) >= (now_ns, rank) for other in self._ranks if other.is_here)
