"""Everything around the lanes: title, time axis with its cuts, and the column of totals."""

from __future__ import annotations

from simulator.show import units, words
from simulator.show.axis import Piece, TimeAxis, nice_step
from simulator.show.canvas import Box, Canvas, text_width
from simulator.show.geometry import LEFT, LINE_H, PAD, TITLE_H, WIDTH, Geometry
from simulator.show.style import FAINT, INK, MUTED
from simulator.show.totals import RankTotals, totals
from simulator.trace import Trace

TITLE_PT = 11.5
TICK_PT = 62.0
BREAK_PT = 14.0


def title(canvas: Canvas, headline: str, lines: list[str], provenance: list[str]) -> None:
    """Writes the outcome, the reading and, smaller, what the run depends on."""
    canvas.text(PAD, PAD + 6, headline, size=TITLE_PT, bold=True)
    for index, line in enumerate(lines + provenance):
        is_reading = index < len(lines)
        size, colour = (8.2, INK) if is_reading else (6.4, MUTED)
        canvas.text(PAD, PAD + TITLE_H + 2 + index * LINE_H, line, size=size, colour=colour)


def time_axis(canvas: Canvas, axis: TimeAxis, geometry: Geometry, name_of_time: str) -> None:
    """Draws the ruler under the lanes; cut stretches are dashed and named."""
    y = geometry.bottom
    first = axis.pieces[0]
    span = max(piece.t1 - piece.t0 for piece in axis.pieces if not piece.is_cut)
    name, size = units.unit_of(max(first.t1, span))
    ticks: list[Box] = []
    grid: list[Box] = []
    for index, piece in enumerate(axis.pieces):
        if piece.is_cut:
            _cut(canvas, piece, y)
            continue
        canvas.lines([(LEFT + piece.x0, y, LEFT + piece.x1, y)], INK, width=0.9, z=6)
        for ns, label in _ticks(piece, span, name, size, axis, is_first=index == 0):
            x = LEFT + axis.x(ns)
            ticks.append((x, y, x, y + 3.5))
            grid.append((x, geometry.top + 2, x, y))
            canvas.text(x, y + 9.5, label, size=6.8, align="center")
    canvas.lines(ticks, INK, width=0.9, z=6)
    canvas.lines(grid, FAINT, width=0.4, z=0.5)
    if axis.end < axis.edge - 1:
        _tail(canvas, axis, y)
    unit = f" ({name})" if span else ""
    canvas.text(LEFT + axis.edge / 2, y + 24, f"{name_of_time}{unit}", size=7.6, align="center")


def _ticks(piece: Piece, span: int, name: str, size: int, axis: TimeAxis, *, is_first: bool) -> list[tuple[int, str]]:
    """Returns (virtual time, label); after a cut the first tick tells the whole time and the others count from it."""
    scaled = sum(p.x1 - p.x0 for p in axis.pieces if not p.is_cut)
    step = nice_step(span, int(scaled / TICK_PT))
    count = int((piece.t1 - piece.t0) // step) if piece.x1 - piece.x0 > TICK_PT else 0
    if is_first:
        return [(k * step, f"{k * step / size:,g}") for k in range(count + 1)]
    later = [(piece.t0 + k * step, f"+{k * step / size:,g}") for k in range(1, count + 1)]
    return [(piece.t0, units.duration(piece.t0)), *later]


def _cut(canvas: Canvas, piece: Piece, y: float) -> None:
    x0, x1 = LEFT + piece.x0, LEFT + piece.x1
    canvas.lines([(x0, y, x1, y)], MUTED, width=0.9, z=6, style=(0, (2, 2)))
    said = f"{units.duration(piece.t1 - piece.t0)} cut out, not to scale"
    if text_width(said, 6.4) < x1 - x0 - 30:
        canvas.text((x0 + x1) / 2, y + 9.5, said, size=6.4, colour=MUTED, align="center")
    else:
        canvas.text((x0 + x1) / 2, y - 5, units.duration(piece.t1 - piece.t0), size=5.8, colour=MUTED, align="center")


def _tail(canvas: Canvas, axis: TimeAxis, y: float) -> None:
    x0, x1 = LEFT + axis.end, LEFT + axis.edge
    canvas.lines([(x0, y, x1, y)], MUTED, width=0.9, z=6, style=(0, (1, 3)))
    canvas.text((x0 + x1) / 2, y + 9.5, "the run ended here", size=6.4, colour=MUTED, align="center")


def break_x(piece: Piece) -> float:
    """Returns where the break of a cut stretch is marked, in points from the lane's left end."""
    return piece.x1 - min(BREAK_PT, (piece.x1 - piece.x0) / 2)


def break_marks(canvas: Canvas, axis: TimeAxis, geometry: Geometry) -> None:
    """Draws a white slanted band with two strokes through all lanes where time is cut out."""
    for piece in axis.cuts:
        x = LEFT + break_x(piece)
        top, bottom, slant = geometry.top + 4, geometry.bottom + 5, 5.0
        canvas.shapes([[(x - 2 + slant, top), (x + 2 + slant, top), (x + 2, bottom), (x - 2, bottom)]], "#ffffff", z=10)
        strokes = [(x + dx + slant, top, x + dx, bottom) for dx in (-2.0, 2.0)]
        canvas.lines(strokes, INK, width=0.9, z=10.1, gid="axis-break")


def totals_column(canvas: Canvas, trace: Trace, geometry: Geometry) -> None:
    """Writes each rank's shares of compute, waiting and transfer; their times, and that stuck, where a rank got stuck.

    Beside hours in a failed operation, shares of the time before it would tell nothing, or the wrong thing.
    """
    counted = totals(trace)
    is_any_stuck = any(of_rank.is_stuck for of_rank in counted)
    first = 1 if trace.header.get("clock") == "wall" else 0  # a recorded job tells its communication only
    names = ("compute", "waiting", "transfer", *(["stuck"] if is_any_stuck else []))[first:]
    apart, name_size, size = (30, 5.6, 6.0) if is_any_stuck else (38, 6.2, 7.4)
    size = min(size, 6.4) if geometry.has_small_lanes else size
    y = geometry.top + (-3 if geometry.has_small_lanes else 4)
    columns = [WIDTH - PAD - apart * index for index in reversed(range(len(names)))]
    for x, name in zip(columns, names, strict=True):
        canvas.text(x, y, name, size=name_size, colour=MUTED, align="right")
    for of_rank in counted:
        top, bottom = geometry.lane(of_rank.rank)
        cells = [*_times(of_rank), words.stuck(of_rank)] if is_any_stuck else _shares(of_rank)
        for x, cell in zip(columns, cells[first:], strict=True):
            canvas.text(x, (top + bottom) / 2, cell, size=size, align="right")


def _parts(of_rank: RankTotals) -> tuple[int, ...]:
    return of_rank.compute_ns, of_rank.waiting_ns, of_rank.transfer_ns


def _times(of_rank: RankTotals) -> list[str]:
    return [units.duration(part) if part else "-" for part in _parts(of_rank)]


def _shares(of_rank: RankTotals) -> list[str]:
    whole = of_rank.counted_ns
    return [f"{100 * part / whole:.0f} %" if whole else "-" for part in _parts(of_rank)]
