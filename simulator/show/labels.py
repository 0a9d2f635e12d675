"""Writes on the lanes: failures and faults always, operations and durations where they fit."""

from __future__ import annotations

from collections.abc import Iterable

from simulator.show import furniture, units, words
from simulator.show.bars import Bar
from simulator.show.canvas import Box, Canvas, text_width
from simulator.show.geometry import LEFT
from simulator.show.lanes import Stretch
from simulator.show.reading import late_ranks
from simulator.show.scene import FaultPoint, Scene
from simulator.show.style import ALARM, INK, LANE, LOOKS, MARKS, MUTED
from simulator.show.totals import is_open
from simulator.trace import Event

MAX_BAR_LABELS = 96
"""Labels on bars, shared evenly among the lanes."""

EXITS = {"done": "returned", **words.WENT_WRONG}


def faults(canvas: Canvas, scene: Scene) -> None:
    """Draws a glyph with a name for every fault: a kill in the middle of its lane, others on the upper edge."""
    for op, mark in MARKS.items():
        points = [point for point in scene.faults if point.event.op == op]
        places = [(point.x, _fault_height(scene, point)) for point in points]
        canvas.glyphs(places, mark, z=8, gid=f"fault-{op}")
        named: set[int] = set()
        for point, (x, y) in zip(points, places, strict=True):
            if op != "slow" or point.event.rank not in named:
                _fault_name(canvas, scene, point, x + mark.size / 2 + 3, y)
            named.add(point.event.rank)


def _fault_height(scene: Scene, point: FaultPoint) -> float:
    top, bottom = scene.geometry.lane(point.event.rank)
    return (top + bottom) / 2 if point.event.op == "kill" else top - 1


def _fault_name(canvas: Canvas, scene: Scene, point: FaultPoint, left: float, y: float) -> None:
    """Names a fault to the right of its glyph, or to the left at the edge of the picture."""
    is_kill, is_small = point.event.op == "kill", scene.geometry.has_small_lanes
    size = 5.8 if is_small else 7.5 if is_kill else 6.8
    name = words.fault(scene.trace, point.event)
    width = text_width(name, size, bold=True)
    if left + width > scene.edge:
        left = point.x - MARKS[point.event.op].size / 2 - 3 - width
    y = y if is_kill or is_small else y - 5
    canvas.fill([(left - 1, y - size * 0.62, left + width + 1, y + size * 0.55)], "#ffffff", z=7.8)
    canvas.text(left, y, name, size=size, bold=True, colour=ALARM if is_kill else INK)


def near_fault(scene: Scene, rank: int, x: float) -> bool:
    """Says whether the name of a fault would collide with a step's name that starts at x."""
    near = [point.x - x for point in scene.faults if point.event.rank == rank and point.event.op != "kill"]
    return any(-95 < distance < 30 for distance in near)


def failures(canvas: Canvas, scene: Scene) -> None:
    """Labels every operation that did not end well: in its bar, or across the lane where the bar is too short."""
    size = 6.0 if scene.geometry.has_small_lanes else 7.0
    for rank, of_rank in scene.bars.items():
        top, bottom = scene.geometry.lane(rank)
        stuck = [(bar, bar.stretch.event) for bar in of_rank if bar.kind == "failed" and bar.stretch is not None]
        for index, (bar, event) in enumerate(stuck):
            limit = min([scene.axis.edge, *(x for x in map(furniture.break_x, scene.axis.cuts) if x > bar.x0)]) - 6
            name = _fitting(_failure_names(event), limit - bar.x0 - 5, size)
            width = text_width(name, size, bold=True)
            left = LEFT + max(2.0, min(bar.x0 + 5, limit - width))
            y = top + (index + 0.5) * (bottom - top) / len(stuck)
            canvas.fill([(left - 2, y - size * 0.72, left + width + 2, y + size * 0.68)], LOOKS["failed"].face, z=6)
            canvas.text(left, y, name, size=size, bold=True, colour=ALARM)


def _failure_names(event: Event) -> list[str]:
    """Returns labels of a failure, the fullest first."""
    short = f"{event.label}, {words.status(event)}"
    full = words.failure(event)
    return [f"rank {event.rank}: {full}", f"rank {event.rank}: {short}", full, short]


def _fitting(names: list[str], room: float, size: float) -> str:
    """Returns the first name that fits, else the last."""
    return next((name for name in names if text_width(name, size, bold=True) <= room), names[-1])


def exits(canvas: Canvas, scene: Scene) -> None:
    """Says in an otherwise empty rest of a lane how its rank left, when others were still stuck."""
    if not any(is_open(event) for event in scene.trace.events):
        return
    for rank, events in scene.events.items():
        leave = next((event for event in events if event.op == "exit" and event.status in EXITS), None)
        if leave is None or any(is_open(event) for event in events):
            continue
        top, bottom = scene.geometry.lane(rank)
        name, x = EXITS[leave.status], scene.x(leave.issue_ns) + 6
        raised, y = leave.status != "done", (top + bottom) / 2
        size = 5.8 if scene.geometry.has_small_lanes else 7.0
        width = text_width(name, size, bold=raised)
        if x + width < scene.edge:
            canvas.fill([(x - 2, y - size * 0.7, x + width + 2, y + size * 0.7)], LANE, z=1.4)
            canvas.text(x, y, name, size=size, bold=raised, colour=ALARM if raised else MUTED)


def bars(canvas: Canvas, scene: Scene) -> None:
    """Names the widest bars of every lane."""
    size = 5.8 if scene.geometry.has_small_lanes else 6.6
    budget = max(2, MAX_BAR_LABELS // max(1, len(scene.bars)))
    culprits = _culprits(scene.trace.events)
    grounds: dict[str, list[Box]] = {}
    for rank, of_rank in scene.bars.items():
        named = [(bar, name) for bar in of_rank if (name := _name(bar, culprits, size))]
        named.sort(key=lambda item: (-round(item[0].width), item[0].x0))
        for bar, name in named[:budget]:
            look = LOOKS[bar.kind]
            x0, top, x1, bottom = scene.geometry.box(rank, bar)
            x, y, half = (x0 + x1) / 2, _middle(of_rank, bar, top, bottom), text_width(name, size) / 2 + 1.5
            if look.hatch:
                grounds.setdefault(look.face, []).append((x - half, y - size * 0.66, x + half, y + size * 0.62))
            canvas.text(x, y, name, size=size, colour=look.text, align="center", z=7)
    for face, boxes in grounds.items():
        canvas.fill(boxes, face, z=6)


def _middle(lane: list[Bar], bar: Bar, top: float, bottom: float) -> float:
    """Returns the height of a label; it moves up where something in the background covers the bar's foot."""
    covers = [other.top for other in lane if other.is_behind and other.x0 < bar.x1 and other.x1 > bar.x0]
    return top + (bottom - top) * (1.0 if bar.is_behind else min(covers, default=1.0)) / 2


def _name(bar: Bar, culprits: dict[tuple[str, int], list[int]], size: float) -> str:
    """Returns the fullest name that fits into a bar, or nothing."""
    if bar.stretch is None or bar.kind == "failed" or bar.bottom - bar.top < 0.2:
        return ""
    names = _names(bar.stretch, culprits)
    return next((name for name in names if text_width(name, size) <= bar.width - 5), "")


def _names(stretch: Stretch, culprits: dict[tuple[str, int], list[int]]) -> list[str]:
    """Returns names of a stretch, the fullest first."""
    event = stretch.event
    assert stretch.t1 is not None
    took = units.duration(stretch.t1 - stretch.t0)
    if stretch.kind == "compute":
        return [f"{event.phase} {took}", event.phase, took] if event.phase else [f"compute {took}", took]
    if stretch.kind == "waiting":
        late = culprits.get((event.group, event.seq), []) if event.is_collective else [event.peer]
        whom = units.ranks([rank for rank in late if rank >= 0])
        return [f"waits for {whom}, {took}", f"waits for {whom}", f"waits {took}", took]
    return [event.label, f"#{event.seq}" if event.is_collective else event.op]


def _culprits(events: Iterable[Event]) -> dict[tuple[str, int], list[int]]:
    """Returns who was late at every finished collective."""
    calls: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        if event.is_collective and event.start_ns >= 0 and not is_open(event):
            calls.setdefault((event.group, event.seq), []).append(event)
    return {key: late_ranks(of_call) for key, of_call in calls.items()}
