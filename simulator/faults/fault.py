"""One fault as data: its kind, the point at which it acts, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

#: Phases that the simulator knows by itself; `simulator.annotate` names any other.
PHASES = ("init", "forward", "backward", "optimizer", "save-write", "save-rename", "load", "teardown")


class Form(NamedTuple):
    """How one kind is written: what it takes, in this order, and what it needs."""

    takes: tuple[str, ...]
    needs: tuple[str, ...] = ()


_POINT = ("step", "collective", "phase", "file")
KINDS: dict[str, Form] = {
    "kill": Form(("rank", *_POINT, "incarnation"), ("rank",)),
    "hang": Form(("rank", *_POINT, "incarnation"), ("rank",)),
    "preempt": Form(("rank", *_POINT, "grace_s", "incarnation"), ("rank", "grace_s")),
    "slow": Form(("rank", "factor", "steps", "incarnation"), ("rank", "factor")),
    "skip_collective": Form(("rank", "collective", "incarnation"), ("rank", "collective")),
    "corrupt": Form(("rank", "step", "collective", "bits", "element", "where", "incarnation"), ("rank", "bits")),
    "partition": Form(("sets", "step", "collective", "duration_s", "incarnation"), ("sets",)),
    "slow_link": Form(("ranks", "nodes", "factor", "steps", "incarnation"), ("factor",)),
}
#: Faults that describe a state of the machine: they last over a restart. All others act once.
CONDITIONS = frozenset({"slow", "slow_link", "partition"})
#: How a rank may end by a fault of that kind.
ENDS = {"kill": ("killed",), "preempt": ("killed",), "hang": ("hung",)}


@dataclass(frozen=True)
class Fault:
    """One fault. Numbers count from 0; -1, "" and () mean: not given.

    Attributes:
        collective: the k-th collective that the rank's main thread issues. phase, file: see docs/faults.md.
        steps: (from, to), end excluded. duration_s: virtual seconds, -1 for ever.
        ranks, nodes: the two ends of a link. sets: ranks that a partition separates.
        bits: which bits of an element are flipped, 0 the lowest. element: its index in the flattened tensors.
        where: "result" (what the rank receives) or "payload" (what it sends).
        incarnation: acts only in this one; -1: in the first one that reaches the point.
    """

    kind: str
    rank: int = -1
    step: int = -1
    collective: int = -1
    phase: str = ""
    file: int = -1
    factor: float = 1.0
    steps: tuple[int, int] | None = None
    grace_s: float = 0.0
    duration_s: float = -1.0
    ranks: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    bits: tuple[int, ...] = ()
    element: int = 0
    where: str = "result"
    incarnation: int = -1

    def __str__(self) -> str:
        form = KINDS[self.kind]
        given = [name for name in form.takes if name in form.needs or getattr(self, name) != _DEFAULTS[name]]
        return f"{self.kind}({', '.join(f'{name}={_text(getattr(self, name))}' for name in given)})"

    @property
    def named_ranks(self) -> tuple[int, ...]:
        """Every rank that it names, ascending; a link between nodes names none."""
        own = (self.rank,) if self.rank >= 0 else ()
        return tuple(sorted({*own, *self.ranks, *(rank for part in self.sets for rank in part)}))

    @property
    def is_condition(self) -> bool:
        """A state of the machine, which lasts over a restart."""
        return self.kind in CONDITIONS

    def in_steps(self, step: int) -> bool:
        return self.steps is None or self.steps[0] <= step < self.steps[1]


_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Fault)}


def _text(value: Any) -> str:
    """A value as it is written in a plan."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return repr(value)
