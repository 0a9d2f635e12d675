"""What may happen when no rank can run: the lowest (virtual time, priority, rank) goes first, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

#: What goes first among decisions at the same virtual time.
RELEASE, STORE, ANY_SOURCE, POLL, GRACE, LOSS, MISMATCH, TIMEOUT, STOP, BYE = range(10)


class Decision(NamedTuple):
    """Something that may happen when no rank can run. The lowest (at_ns, priority, rank) goes first."""

    at_ns: int
    priority: int
    rank: int
    act: Callable[[], None]
