"""The picture of a memory profile: what layers save and what checkpointing them frees."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from simulator.memory.units import size
from simulator.show.canvas import settings
from simulator.show.style import INK, LOOKS

if TYPE_CHECKING:
    from simulator.memory.layers import LayerMemory

_LAYER_IN, _DPI = 0.3, 144
_NUM_TICKS = 6


class MemoryPlot:
    """In a notebook the value of a cell is the picture; `alt` says in a sentence what it shows."""

    def __init__(self, title: str, layers: Sequence[LayerMemory], alt: str) -> None:
        self.title, self.layers, self.alt = title, layers, alt

    def figure(self) -> Figure:
        """Draws a new matplotlib figure (8 inches wide); nothing global is changed."""
        with settings():
            return _draw(self.title, self.layers)

    def png(self) -> bytes:
        """Returns the picture as PNG, 1152 pixels wide."""
        buffer = io.BytesIO()
        with settings():
            metadata = {"Software": None, "Description": self.alt}
            _draw(self.title, self.layers).savefig(buffer, format="png", dpi=_DPI, metadata=metadata)
        return buffer.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"image/png": self.png(), "text/plain": self.alt}, {"image/png": {"alt": self.alt, "width": 768}}

    def __repr__(self) -> str:
        return f"<MemoryPlot: {self.title}>"


def _draw(title: str, layers: Sequence[LayerMemory]) -> Figure:
    """Two bars a layer; the second is hatched, so that colour is not needed."""
    figure = Figure(figsize=(8, 1.1 + _LAYER_IN * max(1, len(layers))), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    places = range(len(layers))
    bars = (
        ("compute", -0.2, "saved for backward", [layer.saved_bytes for layer in layers]),
        ("collective", 0.2, "freed if this layer is checkpointed", [max(0, layer.freed_bytes) for layer in layers]),
    )
    for look, shift, label, widths in bars:
        fill, line, hatch = LOOKS[look].face, LOOKS[look].edge, LOOKS[look].hatch
        at = [place + shift for place in places]
        axes.barh(at, widths, 0.4, color=fill, edgecolor=line, hatch=hatch, label=label, linewidth=0.5)
    axes.set_yticks(list(places), [f"{layer.name} ({layer.kind})" if layer.kind else layer.name for layer in layers])
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda value, _: size(value).replace(".00 ", " "))
    axes.xaxis.set_major_locator(MultipleLocator(_tick(max((layer.saved_bytes for layer in layers), default=1))))
    axes.set_title(title, loc="left", color=INK, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _tick(largest: int) -> int:
    """A power of two, so that ticks are round in KiB, MiB and GiB."""
    return 1 << max(0, (largest // _NUM_TICKS).bit_length())
