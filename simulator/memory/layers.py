"""The result of `simulator.memory_profile`: a row for each layer, as a table and as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.errors import UsageError
from simulator.memory.units import count, size

if TYPE_CHECKING:
    from simulator.memory.plot import MemoryPlot

_ORDERS = ("model", "saved", "freed", "ratio")
_MOST_BARS = 40


@dataclass(frozen=True)
class LayerMemory:
    """One module, with all that is in it, over all its calls in one forward pass.

    Attributes:
        name: path in the model; kind: class; calls: how often it ran.
        saved_bytes: distinct storages that it saves for backward. Layers that save the same storage both count it, so
            rows do not add up.
        held_bytes: the part of it that autograd was not told of: caches of selective checkpointing, and tensors that
            the model keeps in attributes.
        freed_bytes: what checkpointing this layer alone frees between forward and backward; negative where its inputs,
            which have to be kept, are more than what it saves.
        flops: of its forward; recompute_flops: of the part that checkpoint runs again.
        is_changing_input: it changes an input in place, so it must not be checkpointed alone.
    """

    name: str
    kind: str
    calls: int
    saved_bytes: int
    held_bytes: int
    freed_bytes: int
    flops: int
    recompute_flops: int
    is_changing_input: bool

    @property
    def bytes_per_flop(self) -> float:
        """Bytes freed for each FLOP of recomputation: checkpoint the largest first. Infinite where no matrix product
        is recomputed.
        """
        if self.freed_bytes <= 0 or self.is_changing_input:
            return 0.0
        return self.freed_bytes / self.recompute_flops if self.recompute_flops else math.inf


@dataclass(frozen=True)
class MemoryProfile:
    """What a model saves for backward; in a notebook a table, elsewhere ``print(profile.table())``.

    Attributes:
        total_bytes: distinct storages saved by the whole forward pass, without parameters, buffers and batch.
        parameter_bytes: for comparison. layers: in the order in which they first ran.
        notes: what the numbers leave out.
    """

    model: str
    total_bytes: int
    parameter_bytes: int
    layers: tuple[LayerMemory, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> LayerMemory:
        """The layer of that path. Raises `KeyError` with the paths that there are."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(f"no layer {name!r}; there are {', '.join(layer.name for layer in self.layers)}")

    def sorted(self, by: str = "model", *, depth: int | None = None) -> list[LayerMemory]:
        """Layers that save something, in the order of the model, or with the largest first by `saved`, `freed` or
        `ratio` (bytes freed per FLOP, those without FLOPs last); `depth` 1 leaves out what is inside other layers.
        """
        if by not in _ORDERS:
            raise UsageError(f"cannot sort by {by!r}: use one of {', '.join(_ORDERS)}")
        layers = [
            layer
            for layer in self.layers
            if (layer.saved_bytes or layer.freed_bytes) and (depth is None or self._depth(layer) <= depth)
        ]
        if by == "model":
            return layers
        if by == "ratio":
            return sorted(layers, key=_by_ratio)
        return sorted(layers, key=lambda layer: -(layer.saved_bytes if by == "saved" else layer.freed_bytes))

    def _depth(self, layer: LayerMemory) -> int:
        return 0 if layer.name == self.model else layer.name.count(".") + 1

    def table(self, by: str = "model", *, depth: int | None = None) -> str:
        """The rows as text."""
        head = ("layer", "class", "calls", "saved", "freed", "recompute", "freed per FLOP")
        rows = [head, *(_row(layer) for layer in self.sorted(by, depth=depth))]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ["  ".join(_pad(i, cell, widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows]
        notes = [
            self.summary,
            "saved: bytes kept for backward, inner layers included; freed: if this layer alone were checkpointed",
            *self.notes,
        ]
        if any(layer.is_changing_input for layer in self.layers):
            notes.append("*: changes its input in place, so it must not be checkpointed alone")
        return "\n".join([*lines, *notes])

    @property
    def summary(self) -> str:
        """One sentence."""
        return (
            f"{self.model} saves {size(self.total_bytes)} for backward; its parameters are {size(self.parameter_bytes)}"
        )

    @property
    def alt(self) -> str:
        """What the picture says, for readers who do not see it."""
        top = self.sorted("saved", depth=1)[1:4]
        names = ", ".join(f"{layer.name} {size(layer.saved_bytes)}" for layer in top)
        return f"{self.summary}. Largest: {names}." if names else f"{self.summary}."

    def plot(self, *, depth: int | None = None) -> MemoryPlot:
        """A picture: for each layer what it saves and what checkpointing it frees, the largest first. `depth` is how
        far into the model to look, without it as far as the picture has room for.
        """
        from simulator.memory.plot import MemoryPlot

        if depth is None:
            fits = [d for d in range(1, 10) if len(self.front(d)) <= _MOST_BARS]
            depth = max(fits, default=1)
        return MemoryPlot(self.summary, self.front(depth), self.alt)

    def front(self, depth: int) -> list[LayerMemory]:
        """Layers down to `depth` that hold no other one of them: every saved byte is in at least one."""
        layers = self.sorted("saved", depth=depth)
        names = [layer.name for layer in layers]
        is_outer = {name for name in names for other in names if other.startswith(f"{name}.")} | {self.model}
        return [layer for layer in layers if layer.name not in is_outer]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.table()}

    def __repr__(self) -> str:
        return f"<MemoryProfile: {self.summary}>"


def _by_ratio(layer: LayerMemory) -> tuple[bool, float, int]:
    """Layers without FLOPs come after those with some: their recomputation costs memory traffic, which is not counted
    here, so that their infinite ratio says little.
    """
    ratio = layer.bytes_per_flop
    return (ratio == 0 or math.isinf(ratio), 0 if math.isinf(ratio) else -ratio, -layer.freed_bytes)


def _row(layer: LayerMemory) -> tuple[str, ...]:
    ratio = layer.bytes_per_flop
    per_flop = "" if ratio == 0 else "no FLOPs" if math.isinf(ratio) else f"{ratio:.4g} B"
    return (
        layer.name,
        layer.kind,
        str(layer.calls),
        size(layer.saved_bytes),
        "*" if layer.is_changing_input else size(layer.freed_bytes),
        count(layer.recompute_flops, "FLOP"),
        per_flop,
    )


def _pad(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)
