"""Which faults of a plan have acted, and which an incarnation of the job still meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from simulator.cluster import to_ns
from simulator.faults.fault import KINDS, Fault
from simulator.faults.plan import FaultPlan
from simulator.trace import Event


class Ledger:
    """A fault acts once, in the first incarnation that reaches its point; a condition of the machine lasts. `fired`:
    texts of what acted, in the order of the plan.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._has_fired = [False] * len(plan.faults)
        self._ends_ns: dict[str, int] = {}  # of partitions that began; -1 for never

    @property
    def fired(self) -> tuple[str, ...]:
        return tuple(str(fault) for fault, fired in zip(self._plan.faults, self._has_fired, strict=True) if fired)

    @property
    def not_fired(self) -> tuple[str, ...]:
        return tuple(str(fault) for fault, fired in zip(self._plan.faults, self._has_fired, strict=True) if not fired)

    def plan_of(self, incarnation: int, start_ns: int) -> FaultPlan:
        """What an incarnation that begins at `start_ns` still meets."""
        faults = [
            fault
            for fault, fired in zip(self._plan.faults, self._has_fired, strict=True)
            if fault.incarnation in (-1, incarnation)
            and (not fired or fault.is_condition)
            and not 0 <= self._ends_ns.get(str(fault), -1) <= start_ns
        ]
        return FaultPlan(self._plan.seed, tuple(faults))

    def healing(self) -> dict[str, int]:
        """Partitions that began, and the virtual time at which each ends (-1: never)."""
        return dict(self._ends_ns)

    def settle(self, events: Iterable[Event]) -> None:
        """Book what acted in one incarnation."""
        marks = [event for event in events if event.op in KINDS]
        count = Counter(event.detail for event in marks)
        for position, fault in enumerate(self._plan.faults):
            if not self._has_fired[position] and count[str(fault)]:
                self._has_fired[position] = True
                count[str(fault)] -= 1
                self._begin(fault, marks)

    def _begin(self, fault: Fault, marks: list[Event]) -> None:
        if fault.kind == "partition":
            began_ns = min(event.start_ns for event in marks if event.detail == str(fault))
            self._ends_ns[str(fault)] = -1 if fault.duration_s < 0 else began_ns + to_ns(fault.duration_s)
