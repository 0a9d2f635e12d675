"""The legend: only what a picture shows, each with the hatch, outline or glyph that it has in the lanes."""

from __future__ import annotations

from collections.abc import Iterable

from simulator.show.bars import Bar
from simulator.show.canvas import Canvas, text_width
from simulator.show.geometry import AXIS_H, LEGEND_ROW_H, PAD, WIDTH, Geometry
from simulator.show.style import INK, LOOKS, MARKS, MUTED
from simulator.trace import Event

BEHIND = "low bar: runs in the background"
SHARES = "stacked: shares of many short ones"
STEP = "step begins"
MESSAGE = "message"
CUT = "time cut out"
SIGN_W = 22.0


def entries(bars: Iterable[Bar], events: Iterable[Event], *, has_arrows: bool, has_cuts: bool) -> list[str]:
    """Lists what a picture shows: keys of `LOOKS` and `MARKS`, and the signs of this module."""
    bars, events = list(bars), list(events)
    ops = {event.op for event in events}
    names = [kind for kind in LOOKS if any(bar.kind == kind for bar in bars)]
    names += [BEHIND] if any(bar.is_behind for bar in bars) else []
    names += [SHARES] if any(bar.is_share for bar in bars) else []
    names += [op for op in MARKS if op in ops]
    names += [STEP] if any(event.step >= 0 for event in events) else []
    return names + ([MESSAGE] if has_arrows else []) + ([CUT] if has_cuts else [])


def num_rows(names: list[str]) -> int:
    """Returns how many rows the legend needs."""
    return len(_rows(names))


def words(name: str) -> str:
    """Explains one entry."""
    return LOOKS[name].words if name in LOOKS else MARKS[name].words if name in MARKS else name


def draw(canvas: Canvas, names: list[str], geometry: Geometry) -> None:
    """Draws the legend below the time axis."""
    for index, row in enumerate(_rows(names)):
        y = geometry.bottom + AXIS_H + index * LEGEND_ROW_H
        for x, name in row:
            _sign(canvas, name, x, y)
            canvas.text(x + SIGN_W + 5, y, words(name), size=7.0)


def _rows(names: list[str]) -> list[list[tuple[float, str]]]:
    """Fills rows from the left; returns (x, name) of each entry."""
    rows: list[list[tuple[float, str]]] = [[]]
    x = PAD
    for name in names:
        width = SIGN_W + 5 + text_width(words(name), 7.0)
        if rows[-1] and x + width > WIDTH - PAD:
            rows.append([])
            x = PAD
        rows[-1].append((x, name))
        x += width + 16
    return rows


def _sign(canvas: Canvas, name: str, x: float, y: float) -> None:
    if name in LOOKS:
        canvas.boxes([(x, y - 5, x + SIGN_W, y + 5)], LOOKS[name], z=6, gid=f"legend-{name}")
    elif name in MARKS:
        canvas.glyphs([(x + SIGN_W / 2 + 2, y)], MARKS[name], z=6, gid=f"legend-{name}")
    elif name == BEHIND:
        canvas.boxes([(x, y - 5, x + SIGN_W, y + 5)], LOOKS["compute"], z=5)
        canvas.boxes([(x + 4, y + 1, x + 18, y + 5)], LOOKS["collective"], z=6)
    elif name == SHARES:
        canvas.boxes([(x, y - 5, x + SIGN_W, y - 1)], LOOKS["waiting"], z=5)
        canvas.boxes([(x, y - 1, x + SIGN_W, y + 5)], LOOKS["compute"], z=5)
    elif name == STEP:
        canvas.lines([(x + 13, y - 5, x + 13, y + 5)], MUTED, width=0.8, z=6)
    elif name == MESSAGE:
        canvas.lines([(x + 2, y, x + 17, y)], INK, width=0.9, z=6)
        canvas.shapes([[(x + SIGN_W, y), (x + 16, y - 2.6), (x + 16, y + 2.6)]], INK, z=6)
    else:
        assert name == CUT, name
        canvas.lines([(x + 8, y + 6, x + 11, y - 6), (x + 12, y + 6, x + 15, y - 6)], INK, width=0.9, z=6)
