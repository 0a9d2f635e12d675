"""A page measured in points on which a timeline is drawn: rectangles, lines, glyphs and text on one matplotlib figure.

All rectangles of one look become one compound path, which keeps an SVG of hundreds of events small. No pyplot and no
lasting change of matplotlib's settings: figures are made and saved inside `settings()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from simulator.show.style import FONT, INK, Look, Mark

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in points; y grows downwards."""

POINTS_PER_INCH = 72


def settings() -> AbstractContextManager[None]:
    """Returns a context in which the user's own matplotlib settings do not change the picture."""
    return matplotlib.style.context(["default", FONT])


@lru_cache(maxsize=4096)
def text_width(words: str, size: float, bold: bool = False) -> float:
    """Measures text in points."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return float(width)


class Canvas:
    """One figure whose coordinates are points from the top left corner; use it inside `settings()`."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH), facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)

    def boxes(
        self, boxes: Sequence[Box], look: Look, *, z: float, gid: str | None = None, outlined: bool = True
    ) -> None:
        """Draws rectangles of one look."""
        self.fill(boxes, look.face, z=z)
        self._patch(
            _closed([_corners(box) for box in boxes]),
            z=z + 0.1,
            gid=gid,
            facecolor="none",
            edgecolor=look.edge,
            linewidth=look.line_width if outlined else 0,
            linestyle=look.line_style,
            hatch=look.hatch or None,
            hatchcolor=look.hatch_colour,
            hatch_linewidth=0.7,
        )

    def fill(self, boxes: Sequence[Box], colour: str, *, z: float) -> None:
        """Fills rectangles without an outline."""
        self._patch(_closed([_corners(box) for box in boxes]), z=z, facecolor=colour, linewidth=0)

    def shapes(self, shapes: Sequence[Sequence[tuple[float, float]]], colour: str, *, z: float) -> None:
        """Fills polygons."""
        self._patch(_closed(shapes), z=z, facecolor=colour, linewidth=0)

    def lines(
        self, lines: Iterable[Box], colour: str, *, width: float, z: float, style: Any = "solid", gid: str | None = None
    ) -> None:
        """Draws straight lines, each from (x0, y0) to (x1, y1)."""
        ends = [((x0, y0), (x1, y1)) for x0, y0, x1, y1 in lines]
        if ends:
            path = Path([point for end in ends for point in end], [Path.MOVETO, Path.LINETO] * len(ends))
            self._patch(path, z=z, gid=gid, facecolor="none", edgecolor=colour, linewidth=width, linestyle=style)

    def glyphs(self, points: Sequence[tuple[float, float]], mark: Mark, *, z: float, gid: str | None = None) -> None:
        """Draws the glyph of a fault at points."""
        if points:
            x, y = zip(*points, strict=True)
            (line,) = self.axes.plot(
                x, y, mark.marker, ms=mark.size, mfc=mark.face, mec=mark.edge, mew=1.1, zorder=z, clip_on=False
            )
            line.set_gid(gid)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 7.0,
        colour: str = INK,
        align: str = "left",
        bold: bool = False,
        z: float = 9,
    ) -> None:
        """Writes one line, vertically centred on ``y``."""
        weight = "bold" if bold else "normal"
        self.axes.text(
            x, y, words, fontsize=size, color=colour, ha=align, va="center_baseline", fontweight=weight, zorder=z
        ).set_parse_math(False)

    def _patch(self, path: Path | None, *, z: float, gid: str | None = None, **look: Any) -> None:
        if path is not None:
            self.axes.add_patch(PathPatch(path, zorder=z, clip_on=False, gid=gid, **look))


def _corners(box: Box) -> list[tuple[float, float]]:
    x0, y0, x1, y1 = box
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def _closed(shapes: Sequence[Sequence[tuple[float, float]]]) -> Path | None:
    """Joins polygons into one path."""
    if not shapes:
        return None
    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    for shape in shapes:
        points += [*shape, shape[0]]
        codes += [Path.MOVETO, *[Path.LINETO] * (len(shape) - 1), Path.CLOSEPOLY]
    return Path(points, codes)
