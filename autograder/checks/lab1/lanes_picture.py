"""The picture of the four lanes, and the sliders that move it. Nothing in it is told by colour alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from autograder.checks.lab1 import four_lanes
from autograder.checks.lab1.four_lanes import BANDWIDTHS, BATCHES, GPUS, LETTERS, MIB, NAMES, Lane, Setting

LEFT, WIDTH, ROW = 90, 560, 62
#: Dark enough for white letters, and told apart by the letter inside, too.
COLOURS = {
    "computing": "#1f6f54",
    "network": "#b0413e",
    "bubble": "#6b6b6b",
    "parameters": "#33558b",
    "gradients": "#7a4f9a",
    "optimizer": "#8a5a12",
    "activations": "#2f7f86",
    "logits": "#5d6b1e",
    "gathered": "#9a3d6b",
}
#: Where the word does not fit.
SHORT = {name: name[0].upper() for name in COLOURS} | {"gathered": "W"}
LEGEND = (
    "C computing, N waiting for the network, B bubble; "
    "P parameters, G gradients, O optimizer, A activations, L logits, W gathered weights"
)
CELL_COLOURS = {"ddp": "#dbe7f6", "zero3": "#f3dfee", "tp": "#f8e6c8", "pp": "#d9efe3", "": "#eeeeee"}


def svg(setting: Setting) -> str:
    """Step time and memory of each lane as bars, and who wins by GPUs and bandwidth."""
    found = four_lanes.lanes(setting)
    slowest = max(lane.step_ms for lane in found)
    most = max(setting.memory_mib * MIB, *(lane.total_bytes for lane in found))
    best = four_lanes.winner(setting)
    pieces = [piece for k, lane in enumerate(found) for piece in _lane(k, lane, slowest, most, best)]
    limit = LEFT + WIDTH * setting.memory_mib * MIB / most
    bottom = 24 + ROW * len(found)
    pieces.append(
        f'<line x1="{limit:.1f}" x2="{limit:.1f}" y1="20" y2="{bottom}" stroke="#a00" stroke-dasharray="5 3"/>'
    )
    anchor = "end" if limit > LEFT + WIDTH / 2 else "start"
    pieces.append(_words(limit, 14, f"memory limit {setting.memory_mib} MiB", anchor=anchor, fill="#a00"))
    pieces.append(_words(4, bottom + 8, LEGEND, fill="#555", size=11))
    pieces += _grid(setting, bottom + 34)
    height = bottom + 70 + 24 * len(GPUS)
    label = escape(f"Four lanes of one toy, predicted: {setting.label}. The text below says the same.")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="12">'
        f'<rect width="760" height="{height}" fill="white"/>' + "".join(pieces) + "</svg>"
    )


def _lane(number: int, lane: Lane, slowest: float, most: float, best: str) -> Iterator[str]:
    top = 24 + ROW * number
    note = "does not fit" if not lane.fits else "wins" if lane.key == best else ""
    yield _words(4, top + 14, NAMES[lane.key], weight="bold")
    yield _words(4, top + 30, note, fill="#a00" if not lane.fits else "#1f6f54")
    yield from _bar(top, lane.milliseconds, slowest, f"{lane.step_ms:.2f} ms")
    yield from _bar(top + 24, lane.bytes, most, f"{lane.total_bytes / MIB:.1f} MiB")


def _bar(top: float, parts: Mapping[str, float], whole: float, total: str) -> Iterator[str]:
    x = float(LEFT)
    for name, value in parts.items():
        width = WIDTH * value / whole
        if width < 0.5:
            continue
        yield (
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="20" fill="{COLOURS[name]}" stroke="white">'
            f"<title>{name}: {100 * value / sum(parts.values()):.0f} %</title></rect>"
        )
        if width > 7 * len(name) + 6:
            yield _words(x + 4, top + 14, name, fill="white")
        elif width > 14:
            yield _words(x + 3, top + 14, SHORT[name], fill="white")
        x += width
    yield _words(x + 4, top + 14, total)


def _grid(setting: Setting, top: float) -> Iterator[str]:
    """Letters of the winners; a line where the winner changes."""
    yield _words(
        4, top + 4, "fastest that fits, by GB/s: D data, Z ZeRO-3, T tensor, P pipeline, - none", weight="bold"
    )
    width = WIDTH / len(BANDWIDTHS)
    for column, rate in enumerate(BANDWIDTHS):
        yield _words(LEFT + (column + 0.5) * width, top + 22, f"{rate:g}", anchor="middle")
    for row, (gpus, keys) in enumerate(four_lanes.winners(setting).items()):
        y = top + 28 + 24 * row
        yield _words(4, y + 16, f"{gpus} GPUs")
        for column, key in enumerate(keys):
            x = LEFT + column * width
            here = gpus == setting.gpus and BANDWIDTHS[column] == setting.gbytes_per_s
            edge = 'stroke="black" stroke-width="2"' if here else 'stroke="white"'
            yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="24" fill="{CELL_COLOURS[key]}" {edge}/>'
            yield _words(x + width / 2, y + 16, LETTERS[key], anchor="middle", weight="bold")
            if column and keys[column - 1] != key:
                yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 24}" stroke="#a00" stroke-width="3"/>'


def _words(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#222", weight: str = "normal", size: int = 12
) -> str:
    style = f'text-anchor="{anchor}" fill="{fill}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def html(setting: Setting) -> str:
    """The picture and its twin in text."""
    words = escape(four_lanes.text(setting))
    return f"{svg(setting)}<details><summary>the same as text</summary><pre>{words}</pre></details>"


@dataclass(frozen=True)
class Picture:
    """The picture where sliders cannot be: in a notebook that nobody runs, or as text."""

    setting: Setting

    def __repr__(self) -> str:
        return four_lanes.text(self.setting)

    def _repr_html_(self) -> str:
        return html(self.setting)


def explore(setting: Setting | None = None) -> Any:
    """Sliders for GPUs, batch, bandwidth and memory above the picture."""
    import ipywidgets as widgets  # type: ignore[import-untyped]

    start = setting or Setting()
    memories = (2, 4, 8, 12, 16, 24, 32, 48, 96)

    def slider(name: str, options: tuple[Any, ...], value: Any) -> Any:
        style = {"description_width": "120px"}
        return widgets.SelectionSlider(description=name, options=options, value=value, style=style)

    gpus, batch = slider("GPUs", GPUS, start.gpus), slider("global batch", BATCHES, start.batch)
    rate = slider("link, GB/s", BANDWIDTHS, start.gbytes_per_s)
    memory = slider("memory, MiB", memories, start.memory_mib)
    picture = widgets.HTML(html(start))

    def redraw(_: Any) -> None:
        picture.value = html(Setting(gpus.value, batch.value, rate.value, memory.value))

    for control in (gpus, batch, rate, memory):
        control.observe(redraw, "value")
    return widgets.VBox([gpus, batch, rate, memory, picture])
