"""The time axis of a timeline: linear, except where a long stretch in which nothing happens is cut out.

A hang lasts for the virtual timeout (30 minutes) after microseconds of work. On a linear axis the work would vanish,
so a stretch in which no rank computes or transfers is cut when it is several times longer than everything else
together. All stretches that remain share one scale. After a failure without such a cut, an open tail keeps room to
name what never ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

CUT_RATIO = 4
"""A stretch without activity is cut when it lasts this many times longer than all that is drawn to scale."""

MAX_CUTS = 3
STUCK_SHARE = 0.4
"""Share of the picture's width kept for operations that failed, so that their labels fit."""

PLAIN_CUT_PT = 30.0
FIRST_PIECE_PT = 36.0
LAST_PIECE_PT = 34.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of virtual time (ns) and where it lies in the picture (points); a cut piece is not to scale."""

    t0: int
    t1: int
    x0: float
    x1: float
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """A monotone map from virtual nanoseconds to points; ``edge`` is the right end of the picture."""

    pieces: tuple[Piece, ...]
    edge: float

    def x(self, ns: int) -> float:
        """Maps a virtual time to points."""
        piece = self.pieces[0]
        for later in self.pieces[1:]:
            if later.t0 > ns:
                break
            piece = later
        if piece.t1 == piece.t0:
            return piece.x0
        share = min(1.0, max(0.0, (ns - piece.t0) / (piece.t1 - piece.t0)))
        return piece.x0 + share * (piece.x1 - piece.x0)

    @property
    def cuts(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.is_cut)

    @property
    def end(self) -> float:
        """Where the last virtual time of the trace lies, in points."""
        return self.pieces[-1].x1


def build_axis(
    times: Sequence[int], active: Sequence[tuple[int, int]], width: float, *, needs_tail: bool = False
) -> TimeAxis:
    """Lays out virtual time over a picture.

    Args:
        times: every virtual time (ns) that the trace mentions.
        active: intervals (ns) in which some rank computes or transfers; these are never cut.
        width: points available.
        needs_tail: whether some operation never ended well, so that its label needs room at the right.
    """
    marks = sorted({0, *times})
    cuts = _choose_cuts(marks, active)
    tail = width * STUCK_SHARE if needs_tail and not cuts else 0.0
    bounds = _bounds(marks[-1], cuts)
    widths = _widths(bounds, width - tail, width * STUCK_SHARE if needs_tail else PLAIN_CUT_PT)
    pieces: list[Piece] = []
    x = 0.0
    for (t0, t1, is_cut), piece_width in zip(bounds, widths, strict=True):
        pieces.append(Piece(t0, t1, x, x + piece_width, is_cut))
        x += piece_width
    return TimeAxis(tuple(pieces), width)


def _choose_cuts(marks: list[int], active: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the quiet stretches to cut, in time order."""
    quiet = sorted(_quiet(marks, active), key=lambda gap: gap[0] - gap[1])
    total = marks[-1] - marks[0]
    for count in range(1, min(MAX_CUTS, len(quiet)) + 1):
        rest = total - sum(end - start for start, end in quiet[:count])
        if quiet[count - 1][1] - quiet[count - 1][0] > CUT_RATIO * max(rest, 0):
            return sorted(quiet[:count])
    return []


def _quiet(marks: list[int], active: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the stretches between neighbouring marks that no activity covers."""
    gaps: list[tuple[int, int]] = []
    intervals = sorted(interval for interval in active if interval[1] > interval[0])
    covered, index = -1, 0
    for start, end in pairwise(marks):
        while index < len(intervals) and intervals[index][0] <= start:
            covered = max(covered, intervals[index][1])
            index += 1
        if covered <= start:
            gaps.append((start, end))
    return gaps


def _bounds(last: int, cuts: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Returns (from, to, is_cut) of every piece; before, between and after the cuts lies a piece to scale."""
    bounds: list[tuple[int, int, bool]] = []
    position = 0
    for start, end in cuts:
        bounds += [(position, start, False), (start, end, True)]
        position = end
    return [*bounds, (position, last, False)]


def _widths(bounds: list[tuple[int, int, bool]], width: float, cut_width: float) -> list[float]:
    """Shares the width: cuts get a fixed one, the rest is to scale with a minimum for the first and the last piece."""
    if len(bounds) == 1:
        return [width]
    least = [0.0 if cut else LAST_PIECE_PT if index else FIRST_PIECE_PT for index, (_, _, cut) in enumerate(bounds)]
    if bounds[0][1] == bounds[0][0]:
        least[0] = 0.0  # everything is stuck from the start: there is nothing to show before
    scaled = sum(t1 - t0 for t0, t1, cut in bounds if not cut)
    num_cuts = sum(cut for *_, cut in bounds)
    cut_width = cut_width / num_cuts if scaled else (width - sum(least)) / num_cuts
    free = width - sum(least) - cut_width * num_cuts
    shares = [(t1 - t0) / scaled if scaled else 0.0 for t0, t1, _ in bounds]
    return [
        cut_width if cut else at_least + free * share
        for (_, _, cut), at_least, share in zip(bounds, least, shares, strict=True)
    ]


def nice_step(span: float, most: int) -> int:
    """Returns the smallest of 1, 2, 5, 10, 20 ... that divides a span into at most ``most`` parts."""
    rough = max(1.0, span / max(1, most))
    magnitude = 10 ** math.floor(math.log10(rough))
    return int(next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough * 0.999_999))
