"""From stretches to bars in the picture, in points, without a bar that is thinner than the eye can tell.

Wide stretches become bars at their exact place. Neighbours that are all too thin to tell apart are merged: a lone
group becomes one bar of its main kind, a long crowd becomes columns in which the height of each kind is its share of
the time. Hundreds of steps on a lane then read like an area chart, and nothing is dropped silently.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from simulator.show.axis import TimeAxis
from simulator.show.lanes import Stretch

THIN_PT = 2.4
"""A bar narrower than this cannot show its hatch."""

COLUMN_PT = 9.0
LEVELS = 32
BEHIND_SHARE = 0.38
"""Height of what runs behind, as a share of the lane."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of one kind: x in points, top and bottom as shares of the lane's height counted from its top."""

    kind: str
    x0: float
    x1: float
    top: float = 0.0
    bottom: float = 1.0
    stretch: Stretch | None = None
    is_behind: bool = False
    is_share: bool = False

    @property
    def width(self) -> float:
        return self.x1 - self.x0


def bars(stretches: Iterable[Stretch], axis: TimeAxis) -> list[Bar]:
    """Places the stretches of one rank; those behind come last, so that they are drawn on top."""
    placed = [_place(stretch, axis) for stretch in stretches]
    front = [bar for bar in placed if bar.stretch is not None and not bar.stretch.behind]
    behind = [bar for bar in placed if bar.stretch is not None and bar.stretch.behind]
    return _merge(front, 0.0, 1.0) + [replace(bar, is_behind=True) for bar in _tracks(behind)]


def _place(stretch: Stretch, axis: TimeAxis) -> Bar:
    x0 = axis.x(stretch.t0)
    x1 = axis.edge if stretch.t1 is None else axis.x(stretch.t1)
    return Bar(stretch.kind, x0, x1, stretch=stretch)


def _merge(row: list[Bar], top: float, bottom: float) -> list[Bar]:
    """Keeps wide bars and merges runs of thin ones, between two heights of the lane."""
    merged: list[Bar] = []
    crowd: list[Bar] = []
    for bar in row:
        is_wide = bar.width >= THIN_PT or bar.kind == "failed"
        if crowd and (is_wide or bar.x0 - crowd[-1].x1 > THIN_PT):
            merged += _crowd(crowd)
            crowd = []
        if is_wide:
            merged.append(bar)
        else:
            crowd.append(bar)
    merged += _crowd(crowd) if crowd else []
    height = bottom - top
    return [replace(bar, top=top + bar.top * height, bottom=top + bar.bottom * height) for bar in merged]


def _crowd(crowd: list[Bar]) -> list[Bar]:
    """Merges thin neighbours into one bar, or into columns when they fill more than one."""
    x0, x1 = crowd[0].x0, max(bar.x1 for bar in crowd)
    if len(crowd) == 1 or x1 - x0 < 2 * COLUMN_PT:
        alone = crowd[0].stretch if len(crowd) == 1 else None
        return [replace(crowd[0], kind=_main_kind(crowd), x1=max(x1, x0 + 1.0), stretch=alone)]
    count = int((x1 - x0) / COLUMN_PT)
    edges = [x0 + (x1 - x0) * k / count for k in range(count + 1)]
    starts, ends = [bar.x0 for bar in crowd], [bar.x1 for bar in crowd]
    columns: list[list[Bar]] = []
    for left, right in pairwise(edges):
        # Shares are taken over three columns, or the beat of steps against columns would draw a pattern of its own.
        low, high = max(x0, left - COLUMN_PT), min(x1, right + COLUMN_PT)
        near = crowd[bisect_left(ends, low) : bisect_left(starts, high)]
        column = _column(replace(crowd[0], x0=left, x1=right, stretch=None, is_share=True), near, low, high)
        if columns and [(b.kind, b.top) for b in columns[-1]] == [(b.kind, b.top) for b in column]:
            columns[-1] = [replace(bar, x1=right) for bar in columns[-1]]
        else:
            columns.append(column)
    return [bar for column in columns for bar in column]


def _main_kind(crowd: list[Bar]) -> str:
    share: dict[str, float] = {}
    for bar in crowd:
        share[bar.kind] = share.get(bar.kind, 0.0) + bar.width
    return max(share, key=lambda kind: share[kind])


def _column(blank: Bar, near: list[Bar], low: float, high: float) -> list[Bar]:
    """Stacks the kinds of a crowd within one column; time that no bar covers stays empty at the top."""
    share: dict[str, float] = {}
    for bar in near:
        inside = min(high, bar.x1) - max(low, bar.x0)
        if inside > 0:
            share[bar.kind] = share.get(bar.kind, 0.0) + inside / (high - low)
    column: list[Bar] = []
    foot = 1.0
    covered = 0.0
    for kind in sorted(share, key=_stack_order):
        covered += share[kind]
        top = max(0.0, min(foot - 1 / LEVELS, 1 - round(covered * LEVELS) / LEVELS))
        column.append(replace(blank, kind=kind, top=top, bottom=foot))
        foot = top
    return column


def _stack_order(kind: str) -> int:
    return ("collective", "send", "recv", "compute", "waiting", "failed").index(kind)


def _tracks(behind: list[Bar]) -> list[Bar]:
    """Stacks stretches that run at the same time behind the thread; more than three at once share the last track."""
    ends: list[float] = []
    rows: list[list[Bar]] = []
    for bar in behind:
        free = next((row for row, end in enumerate(ends) if end <= bar.x0 + 1e-9), None)
        if free is None and len(rows) < 3:
            ends.append(0.0)
            rows.append([])
        row = (len(rows) - 1) if free is None else free
        ends[row] = max(ends[row], bar.x1)
        rows[row].append(bar)
    height = BEHIND_SHARE / max(1, len(rows))
    return [
        bar
        for index, row in enumerate(rows)
        for bar in _merge(row, 1 - BEHIND_SHARE + index * height, 1 - BEHIND_SHARE + (index + 1) * height)
    ]
