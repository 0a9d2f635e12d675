"""Draws a trace: one lane per rank over virtual time. What the lanes say is decided elsewhere."""

from __future__ import annotations

import textwrap
from itertools import product

from matplotlib.figure import Figure

from simulator.show import furniture, labels, legend, words
from simulator.show.canvas import Box, Canvas
from simulator.show.geometry import LEFT, WIDTH, Geometry
from simulator.show.lanes import KINDS
from simulator.show.scene import Scene, lay_out
from simulator.show.style import FAINT, INK, LANE, LOOKS, MUTED
from simulator.show.totals import is_blank
from simulator.trace import Trace

SUBTITLE_COLUMNS = 126
PROVENANCE_COLUMNS = 170
MANY_RANKS = 8
"""With more ranks only the first lane names its steps."""

STEP_APART_PT = 16.0
STEP_NAME_PT = 34.0


def draw(trace: Trace, title: str, subtitle: str) -> Figure:
    """Draws a trace under a title; call it inside `simulator.show.canvas.settings()`."""
    lines = textwrap.wrap(subtitle, SUBTITLE_COLUMNS)
    provenance = textwrap.wrap(words.provenance(trace), PROVENANCE_COLUMNS)
    if is_blank(trace):
        return _blank(title, lines, provenance)
    scene = lay_out(trace, len(lines) + len(provenance))
    canvas = Canvas(WIDTH, scene.geometry.height)
    furniture.title(canvas, title, lines, provenance)
    furniture.time_axis(canvas, scene.axis, scene.geometry, words.time(trace))
    furniture.totals_column(canvas, trace, scene.geometry)
    _lanes(canvas, scene)
    _bars(canvas, scene)
    _steps(canvas, scene)
    _arrows(canvas, scene)
    labels.faults(canvas, scene)
    labels.failures(canvas, scene)
    labels.exits(canvas, scene)
    labels.bars(canvas, scene)
    furniture.break_marks(canvas, scene.axis, scene.geometry)
    legend.draw(canvas, scene.legend, scene.geometry)
    return canvas.figure


def _blank(title: str, lines: list[str], provenance: list[str]) -> Figure:
    """Draws the title and the reading alone: lanes without anything in them would only puzzle."""
    canvas = Canvas(WIDTH, Geometry(0, len(lines) + len(provenance), 0).top)
    furniture.title(canvas, title, lines, provenance)
    return canvas.figure


def _lanes(canvas: Canvas, scene: Scene) -> None:
    geometry = scene.geometry
    for rank in scene.events:
        top, bottom = geometry.lane(rank)
        middle = (top + bottom) / 2
        canvas.lines([(LEFT, y, LEFT + scene.axis.edge, y) for y in (top, bottom)], FAINT, width=0.5, z=1.1)
        size = 6.5 if geometry.has_small_lanes else 8.0
        canvas.fill([(LEFT, top, LEFT + scene.axis.edge, bottom)], LANE, z=1)
        canvas.lines(
            [(LEFT, middle, LEFT + scene.axis.edge, middle)],
            FAINT,
            width=0.8,
            z=1.2,
            style=(0, (1, 2)),
            gid=f"lane-rank-{rank}",
        )
        canvas.text(LEFT - 8, middle, f"rank {rank}", size=size, align="right", bold=True)


def _bars(canvas: Canvas, scene: Scene) -> None:
    """Draws all bars of one kind as one path: first what the threads did, then what ran in the background."""
    for is_behind, is_share, kind in product((False, True), (False, True), KINDS):
        boxes: list[Box] = [
            scene.geometry.box(rank, bar)
            for rank, of_rank in scene.bars.items()
            for bar in of_rank
            if (bar.is_behind, bar.is_share, bar.kind) == (is_behind, is_share, kind)
        ]
        gid = kind + "-behind" * is_behind + "-share" * is_share
        canvas.boxes(boxes, LOOKS[kind], z=3.0 if is_behind else 2.0, gid=gid, outlined=not is_share)


def _steps(canvas: Canvas, scene: Scene) -> None:
    """Draws a tick where a rank enters a step, with its number where there is room; crowded ticks are thinned."""
    lines: list[Box] = []
    geometry = scene.geometry
    named_lanes = 0 if geometry.has_small_lanes else 1 if geometry.num_ranks > MANY_RANKS else MANY_RANKS
    for rank in scene.events:
        top, bottom = geometry.lane(rank)
        starts = _step_starts(scene, rank)
        crowded = len(starts) > 1 and (starts[-1][1] - starts[0][1]) / (len(starts) - 1) < STEP_APART_PT
        drawn = -2 * STEP_NAME_PT
        for step, x in starts:
            if crowded and x - drawn < 2 * STEP_NAME_PT:
                continue
            lines.append((x, top - min(5.0, geometry.gap), x, top if crowded else bottom))
            has_room = x - drawn >= STEP_NAME_PT and x < scene.edge - 20 and not labels.near_fault(scene, rank, x)
            if rank < named_lanes and has_room:
                canvas.text(x + 2, top - 4.5, f"step {step}", size=5.8, colour=MUTED)
            drawn = x
    canvas.lines(lines, MUTED, width=0.7, z=4, gid="steps")


def _step_starts(scene: Scene, rank: int) -> list[tuple[int, float]]:
    """Returns (step, x) of the first event of each step of a rank."""
    first: dict[int, float] = {}
    for event in scene.events[rank]:
        if event.step >= 0:
            first.setdefault(event.step, scene.x(event.issue_ns))
    return sorted(first.items(), key=lambda start: start[1])


def _arrows(canvas: Canvas, scene: Scene) -> None:
    """Draws an arrow from each send to its receive, unless there were too many to follow."""
    shafts: list[Box] = []
    heads: list[list[tuple[float, float]]] = []
    for send, recv in scene.messages:
        down = 1 if recv.rank > send.rank else -1
        source, target = scene.geometry.lane(send.rank), scene.geometry.lane(recv.rank)
        x0, x1 = scene.x(max(send.start_ns, send.issue_ns)), scene.x(recv.end_ns)
        y0, y1 = (source[1] - 4, target[0] + 4) if down > 0 else (source[0] + 4, target[1] - 4)
        length = max(1e-6, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        back_x, back_y = x1 - 6 * ux, y1 - 6 * uy
        shafts.append((x0, y0, back_x, back_y))
        heads.append([(x1, y1), (back_x - 2.6 * uy, back_y + 2.6 * ux), (back_x + 2.6 * uy, back_y - 2.6 * ux)])
    canvas.lines(shafts, "#ffffff", width=2.4, z=5)
    canvas.lines(shafts, INK, width=0.9, z=5.1, gid="messages")
    canvas.shapes(heads, INK, z=5.2)
