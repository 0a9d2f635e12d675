"""The virtual clock of one thread of a rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from simulator import wire
from simulator.rank.streams import COMPUTE, Stream


@dataclass(eq=False)
class RankThread:
    """One registered thread, or one task of a thread pool. `name`: "0" for the main thread, "0.1" for its first
    child.
    """

    name: str
    host_ns: int = 0
    step: int = -1
    num_issued: int = 0
    num_children: int = 0
    answer: wire.Answer | None = None
    is_idle: bool = False
    has_ended: bool = False
    chance: Random | None = None  # of its operator times
    is_ours: bool = False  # the operators that run now are the simulator's own
    joiners: list[RankThread] = field(default_factory=list)
    stream: Stream = field(default_factory=lambda: Stream(name=COMPUTE))  # the current one

    def __post_init__(self) -> None:
        self.default_stream = self.stream

    @property
    def now_ns(self) -> int:
        """Where the thread is: what it launches next begins here."""
        return max(self.host_ns, self.stream.ready_ns)

    @property
    def is_aside(self) -> bool:
        """It is in a side stream: waiting there holds up neither its compute nor the host."""
        return self.stream is not self.default_stream

    def fork(self) -> RankThread:
        self.num_children += 1
        return RankThread(f"{self.name}.{self.num_children}", self.now_ns, self.step)

    def next_number(self) -> int:
        self.num_issued += 1
        return self.num_issued - 1

    def advance(self, now_ns: int) -> None:
        """The host waits until then."""
        if now_ns > self.host_ns:
            self.host_ns = now_ns

    def stall(self, until_ns: int) -> None:
        """What its stream does next comes after that."""
        if until_ns > self.stream.ready_ns:
            self.stream.ready_ns = until_ns


class Ours:
    """``with Ours(thread):`` - operators of the simulator's own: they cost the rank nothing."""

    __slots__ = ("_before", "_thread")

    def __init__(self, thread: RankThread) -> None:
        self._thread, self._before = thread, thread.is_ours

    def __enter__(self) -> None:
        self._thread.is_ours = True

    def __exit__(self, *_: object) -> None:
        self._thread.is_ours = self._before
