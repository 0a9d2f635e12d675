"""What the trusted side saw of one case: witnessed events of the trace, and what ranks reported, as plain data.

The trusted process never holds an object of the student. ``said`` comes from the rank's process, which the student's
code shares: a property that a student could gain from by lying must rest on ``events`` instead.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import msgspec

from autograder.checks.cases import C

if TYPE_CHECKING:
    import numpy as np

    from simulator import Run
    from simulator.trace import Event

R = TypeVar("R")


class Fault(msgspec.Struct, frozen=True):
    """What is wrong: ``text`` goes on after "On W ranks (case): ". The check adds picture and replay line.

    Attributes:
        fatal: nothing else of this check means anything any more, so all parts are lost.
    """

    text: str
    expected: str = ""
    seen: str = ""
    rank: int | None = None
    step: int | None = None
    fatal: bool = False


class Array(msgspec.Struct, frozen=True):
    """A tensor or array as bytes. Ranks make it with ``autograder.checks.on_ranks.array``."""

    dtype: Annotated[str, msgspec.Meta(pattern="^(float64|float32|int64|int32|uint8|bool)$")]
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    data: bytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """A read-only numpy array; one of length 0 if shape and bytes do not agree."""
        import numpy as np

        values = np.frombuffer(self.data[: len(self.data) // 8 * 8] if self._odd() else self.data, self.dtype)
        return values.reshape(self.shape) if not self._odd() else np.empty(0, self.dtype)

    def _odd(self) -> bool:
        import numpy as np

        return math.prod(self.shape) * np.dtype(self.dtype).itemsize != len(self.data)


@dataclass(frozen=True)
class Seen(Generic[C, R]):
    """One case.

    Attributes:
        said: what ``on_rank`` returned, by rank (reported); empty if the run did not complete.
        events: the case's events in the order of the trace (witnessed: order, operation, peer, bytes, virtual times).
        earlier: what was seen before, for properties that compare two cases.
    """

    case: C
    run: Run
    said: list[R]
    events: list[Event]
    earlier: list[Seen[C, R]] = field(default_factory=list, repr=False)

    def of(self, rank: int) -> list[Event]:
        """The events of one rank."""
        return [e for e in self.events if e.rank == rank]

    def sent_bytes(self) -> list[int]:
        """Bytes that each rank sent with point-to-point operations."""
        return self._bytes("send")

    def received_bytes(self) -> list[int]:
        """Bytes that each rank received with point-to-point operations."""
        return self._bytes("recv")

    def messages(self) -> list[int]:
        """Sends and receives of each rank."""
        counts = Counter(e.rank for e in self.events if e.is_p2p)
        return [counts[r] for r in range(self.case.world_size)]

    def collectives(self, rank: int = 0, *ops: str) -> list[Event]:
        """The collectives of one rank in program order; of ``ops`` only where given."""
        return [e for e in self.of(rank) if e.is_collective and (not ops or e.op in ops)]

    def _bytes(self, op: str) -> list[int]:
        total = Counter[int]()
        for event in self.events:
            if event.op == op:
                total[event.rank] += event.bytes
        return [total[r] for r in range(self.case.world_size)]
