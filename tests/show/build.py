"""Builds small traces by hand, with every number in sight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.trace import Event, Trace


class Builder:
    """Keeps a virtual clock per rank and writes events as a run would."""

    def __init__(self, world_size: int, outcome: str = "Completed", **header: Any) -> None:
        self.header = {"world_size": world_size, "clock": "virtual", "seed": 0, "cluster": "a100-80gb", **header}
        self.header["outcome"] = outcome
        self.now = [0] * world_size
        self.seq = [0] * world_size
        self.n = [0] * world_size
        self.step = [-1] * world_size
        self.events: list[Event] = []

    def add(self, rank: int, op: str, issue_ns: int, **fields: Any) -> None:
        fields = {"step": self.step[rank], "start_ns": -1, "end_ns": -1, **fields}
        self.events.append(Event(rank=rank, n=self.n[rank], op=op, issue_ns=issue_ns, **fields))
        self.n[rank] += 1

    def moment(self, rank: int, op: str, **fields: Any) -> None:
        self.add(rank, op, self.now[rank], start_ns=self.now[rank], end_ns=self.now[rank], **fields)

    def begin_step(self, step: int) -> None:
        for rank in range(len(self.now)):
            self.step[rank] = step
            self.moment(rank, "step")

    def compute(self, rank: int, ns: int, phase: str = "") -> None:
        start = self.now[rank]
        self.now[rank] += ns
        self.add(rank, "compute", start, start_ns=start, end_ns=start + ns, phase=phase)

    def communicate(self, rank: int, op: str, issue_ns: int, **fields: Any) -> None:
        if op not in ("send", "recv"):
            fields = {"seq": self.seq[rank], **fields}
            self.seq[rank] += 1
        self.add(rank, op, issue_ns, group="default", stream="comm:default", work=self.n[rank], **fields)

    def collective(self, op: str, cost_ns: int, ranks: Sequence[int] | None = None) -> None:
        members = range(len(self.now)) if ranks is None else ranks
        start = max(self.now[rank] for rank in members)
        for rank in members:
            self.communicate(rank, op, self.now[rank], start_ns=start, wait_ns=self.now[rank], end_ns=start + cost_ns)
            self.now[rank] = start + cost_ns

    def fail(self, rank: int, op: str, status: str, after_ns: int | None, **fields: Any) -> None:
        now = self.now[rank]
        end = -1 if after_ns is None else now + after_ns
        self.communicate(rank, op, now, wait_ns=now, end_ns=end, status=status, **fields)

    def trace(self) -> Trace:
        return Trace(self.header, self.events)
