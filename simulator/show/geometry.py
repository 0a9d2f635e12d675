"""Where everything lies on the page, in points: lanes, margins, and the size of the page."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.show.bars import Bar
from simulator.show.canvas import Box

WIDTH = 720.0
LEFT = 62.0
RIGHT = 128.0
PAD = 14.0
TITLE_H = 22.0
LINE_H = 12.5
AXIS_H = 44.0
LEGEND_ROW_H = 16.0


@dataclass(frozen=True, slots=True)
class Geometry:
    """Lanes of ``lane_h`` points, each below a gap that carries step numbers and the names of faults."""

    num_ranks: int
    subtitle_lines: int
    legend_rows: int

    @property
    def lane_h(self) -> float:
        return next((height for most, height in ((4, 32.0), (8, 25.0), (16, 16.0)) if self.num_ranks <= most), 10.5)

    @property
    def gap(self) -> float:
        return next((gap for most, gap in ((4, 16.0), (8, 14.0), (16, 9.0)) if self.num_ranks <= most), 4.5)

    @property
    def plot_w(self) -> float:
        return WIDTH - LEFT - RIGHT

    @property
    def top(self) -> float:
        return PAD + TITLE_H + self.subtitle_lines * LINE_H + 9

    @property
    def bottom(self) -> float:
        return self.top + max(1, self.num_ranks) * (self.lane_h + self.gap) + 5

    @property
    def height(self) -> float:
        return self.bottom + AXIS_H + self.legend_rows * LEGEND_ROW_H + PAD / 2

    @property
    def has_small_lanes(self) -> bool:
        """Whether the gaps are too low for text."""
        return self.gap < 9

    def lane(self, rank: int) -> tuple[float, float]:
        """Returns the top and the bottom of a rank's lane."""
        top = self.top + rank * (self.lane_h + self.gap) + self.gap
        return top, top + self.lane_h

    def box(self, rank: int, bar: Bar) -> Box:
        """Places a bar on the page."""
        top, _ = self.lane(rank)
        return LEFT + bar.x0, top + bar.top * self.lane_h, LEFT + bar.x1, top + bar.bottom * self.lane_h
