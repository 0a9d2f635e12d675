"""Bytes per parameter by kind: the conventions of Lab 1 that a real run on a CPU can keep, too."""

from __future__ import annotations

from typing import NamedTuple


class Convention(NamedTuple):
    """Bytes that one parameter takes: weights, gradient, FP32 master copy, Adam's two moments."""

    weights: int
    gradients: int
    master: int
    moments: int


#: docs/planner.md, "Bytes per parameter".
CONVENTIONS = {
    "fp32": Convention(4, 4, 0, 8),
    "8": Convention(2, 2, 0, 4),
    "16": Convention(2, 2, 4, 8),
    "18": Convention(2, 4, 4, 8),
}
