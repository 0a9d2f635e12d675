"""Who holds memory: rows for people, largest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulator.memory.record import KINDS, Record
from simulator.memory.units import size

NUM_LARGEST = 5


@dataclass(frozen=True)
class Holder:
    """One storage. `module` and `phase` are where it was made; `shape` and `dtype` those of its first tensor."""

    num_bytes: int
    kind: str
    name: str
    module: str
    phase: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"{size(self.num_bytes)} {self.kind.replace('_', ' ')}: {self.name}, {self.dtype}[{dims}]"


def holder(record: Record) -> Holder:
    """A record as people read it."""
    operator = record.func._name.partition("::")[2].partition(".")[0] if record.func is not None else "a tensor"
    name = record.name or f"{operator} in {record.module or 'no module'}"
    dtype = str(record.dtype).removeprefix("torch.")
    return Holder(
        record.num_bytes, record.its_kind, name, record.module, record.phase, tuple(map(int, record.shape)), dtype
    )


def sum_by_kind(holders: Iterable[Holder]) -> dict[str, int]:
    """Bytes by kind; every kind is there."""
    totals = dict.fromkeys(KINDS, 0)
    for each in holders:
        totals[each.kind] += each.num_bytes
    return totals


def largest(holders: Sequence[Holder], count: int = NUM_LARGEST) -> list[str]:
    """The first `count` of sorted holders, one line each; equal ones are counted, not repeated."""
    lines: dict[str, int] = {}
    for each in holders:
        lines[str(each)] = lines.get(str(each), 0) + 1
    return [line if n == 1 else f"{n} times {line}" for line, n in list(lines.items())[:count]]
