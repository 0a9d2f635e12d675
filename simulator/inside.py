"""Optional helpers for code that runs in a rank; outside a run they do nothing, so the same file runs under
torchrun.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.rank.context import Context


def compute(seconds: float) -> None:
    """Charge `seconds` of virtual compute time to this rank."""
    if ctx := _context():
        ctx.compute(seconds)


def steps(count: int | Iterable[int]) -> Iterator[int]:
    """Iterate over training steps and tell the simulator where each begins: ``for step in simulator.steps(10):``.

    `count` may also be the step numbers themselves (``range(3, 10)`` after a restart).
    """
    ctx = _context()
    if ctx:
        ctx.explicit_steps = True
    for step in range(count) if isinstance(count, int) else count:
        if ctx:
            ctx.begin_step(step)
        yield step


@contextmanager
def annotate(phase: str) -> Iterator[None]:
    """Name a phase of the program: ``with simulator.annotate("save-write"):``.

    Events inside carry it as their `phase`, and a fault plan can act at its beginning: ``kill(rank=1, phase=eval)``.
    """
    ctx = _context()
    if ctx is None:
        yield
        return
    ctx.begin_annotation(phase)
    try:
        yield
    finally:
        ctx.end_annotation()


def _context() -> Context | None:
    module = sys.modules.get("simulator.rank.context")
    return module.current if module else None
