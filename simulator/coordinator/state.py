"""What the coordinator knows: ranks, operations, process groups."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from simulator import wire
from simulator.trace import Event

RUNNING, BLOCKED, IDLE, ENDED, LEFT, GONE = "running", "blocked", "idle", "ended", "left", "gone"
MAIN_THREAD = "0"


@dataclass(frozen=True)
class Verdict:
    """Why operations failed. `ranks` are the culprits (all of them in a tie), `at_ns` when the trouble began."""

    kind: str
    text: str
    ranks: tuple[int, ...]
    at_ns: int
    step: int
    group: str = ""
    seq: int = -1


@dataclass(eq=False, slots=True)
class OpState:
    """One announced operation of one rank. status: announced -> granted (has times) -> released (may be launched), or
    failed.
    """

    thread: ThreadState
    n: int
    op: wire.Op
    group: wire.GroupDef
    status: str = "announced"
    start_ns: int = -1
    end_ns: int = -1
    wait_ns: int = -1
    aside: bool = False  # waited for in a side stream
    fail_ns: int = -1
    verdict: Verdict | None = None

    @property
    def rank(self) -> int:
        return self.thread.rank

    def begin_wait(self, now_ns: int, aside: bool) -> None:
        """Its rank waits for it; `aside`: in a side stream. A second wait for the same work is none."""
        if self.wait_ns < 0:
            self.wait_ns, self.aside = now_ns, aside

    @property
    def is_waited_for(self) -> bool:
        """Its thread is blocked on it (and not merely polling)."""
        return self.thread.waiting is self and not self.thread.polling

    @property
    def is_p2p(self) -> bool:
        return self.op.op in ("send", "recv")

    @property
    def deadline_ns(self) -> int:
        return self.op.issue_ns + self.op.timeout_ns

    @property
    def event(self) -> Event:
        op, failed = self.op, {"CollectiveTimeout": "timeout", "CollectiveMismatch": "mismatch", "PeerLost": "lost"}
        finished = self.status == "released"
        return Event(
            rank=self.rank,
            n=self.n,
            thread=self.thread.name,
            op=op.op,
            work=op.number,
            seq=op.seq,
            group=self.group.name,
            stream=f"comm:{self.group.name}",
            reduce=op.reduce,
            peer=op.peer,
            tag=op.tag,
            bytes=op.bytes,
            shapes=op.shapes,
            dtype=op.dtype,
            step=op.step,
            phase=op.phase,
            site=op.site,
            issue_ns=op.issue_ns,
            wait_ns=-1 if finished and self.aside else self.wait_ns,
            start_ns=self.start_ns if finished else -1,
            end_ns=self.end_ns if finished else self.fail_ns,
            status="ok" if finished else failed[self.verdict.kind] if self.verdict else "pending",
        )

    @property
    def label(self) -> str:
        """ "all_reduce #3", "recv from rank 2", with the group where it is not the default one."""
        return self.event.label

    @property
    def signature(self) -> str:
        """ "all_reduce(SUM, float32[8])": what ranks must agree on, in words."""
        op = self.op
        shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in op.shapes)
        words = [
            op.reduce,
            f"{op.dtype}[{shapes}]" if op.dtype else "",
            f"src={op.peer}" if op.peer >= 0 and not self.is_p2p else "",
        ]
        return f"{op.op}({', '.join(filter(None, words))})"


@dataclass(eq=False, slots=True)
class ThreadState:
    """One thread of a rank. status: running, blocked (on `waiting`, at most until `until_ns` if that is not -1), idle
    (waits for another thread), ended.
    """

    rank: int
    name: str
    status: str = RUNNING
    waiting: OpState | wire.StoreCall | wire.Sleep | None = None
    polling: bool = False
    until_ns: int = -1
    clock_ns: int = 0
    num_events: int = 0

    @property
    def is_main(self) -> bool:
        return self.name == MAIN_THREAD

    def advance(self, now_ns: int) -> None:
        if now_ns > self.clock_ns:
            self.clock_ns = now_ns

    def next_n(self) -> int:
        self.num_events += 1
        return self.num_events - 1

    def missed_rendezvous(self, call: wire.StoreCall, step: int) -> Event:
        """A store call timed out: another rank never came to init_process_group or new_group."""
        return Event(
            rank=self.rank,
            n=self.next_n(),
            thread=self.name,
            op="rendezvous",
            issue_ns=call.now_ns,
            start_ns=call.now_ns,
            end_ns=call.now_ns + call.timeout_ns,
            wait_ns=call.now_ns,
            step=step,
            site=call.site,
            status="timeout",
        )

    def block(self, waiting: OpState | wire.StoreCall | wire.Sleep, now_ns: int, *, polling: bool = False) -> None:
        self.advance(now_ns)
        self.status, self.waiting, self.polling = BLOCKED, waiting, polling
        self.until_ns = waiting.until_ns if isinstance(waiting, wire.Sleep) else -1

    def resume(self) -> None:
        self.waiting, self.polling = None, False
        if self.status == BLOCKED:
            self.status = RUNNING


@dataclass(eq=False)
class RankState:
    """One rank. Its clock is that of its main thread. `dies_ns`: when the grace of its preemption is over, or -1."""

    rank: int
    threads: dict[str, ThreadState] = field(default_factory=dict)
    step: int = -1
    leave: wire.Leave | None = None
    is_gone: bool = False
    said_bye: bool = False
    ops: dict[int, OpState] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    groups: dict[str, wire.GroupDef] = field(default_factory=dict)
    num_words: int = 0
    start_ns: int = 0
    dies_ns: int = -1

    def __post_init__(self) -> None:
        self.main = self.threads[MAIN_THREAD] = ThreadState(self.rank, MAIN_THREAD, clock_ns=self.start_ns)

    @property
    def status(self) -> str:
        """Running while any thread is, and while threads wait only for each other: something else may wake them."""
        if self.is_gone:
            return GONE
        if self.leave is not None:
            return LEFT
        if len(self.threads) == 1:  # nearly always: this is asked for every message
            return BLOCKED if self.main.status == BLOCKED else RUNNING
        statuses = [thread.status for thread in self.threads.values()]
        return BLOCKED if RUNNING not in statuses and BLOCKED in statuses else RUNNING

    @property
    def clock_ns(self) -> int:
        return self.main.clock_ns

    @property
    def blocked(self) -> list[ThreadState]:
        """Threads that wait for the coordinator, by name; none after the rank left."""
        if not self.is_here:
            return []
        if len(self.threads) == 1:
            return [self.main] if self.main.status == BLOCKED else []
        return sorted((t for t in self.threads.values() if t.status == BLOCKED), key=lambda t: t.name)

    @property
    def why(self) -> str:
        """How it left: done, error, killed, stopped (by the agent), hung, spinning; "crashed" when its process ended
        without a word; "" while here.
        """
        if self.leave is not None:
            return self.leave.why
        return "crashed" if self.is_gone else ""

    @property
    def is_lost(self) -> bool:
        """Its process is gone before its function returned: others can find that out (not of one that hangs)."""
        return self.why not in ("", "done", "hung")

    @property
    def dead_at_ns(self) -> float:
        """No operation that ends later has this rank in it: killed or stopped, or about to be when its grace ends."""
        if self.why in ("killed", "stopped"):
            return self.clock_ns
        return self.dies_ns if self.dies_ns >= 0 and self.is_here else math.inf

    @property
    def is_here(self) -> bool:
        return self.leave is None and not self.is_gone

    @property
    def earliest_ns(self) -> int:
        """No thread can say anything about an earlier time: an idle one will be woken by one that is not."""
        return min((t.clock_ns for t in self.threads.values() if t.status in (RUNNING, BLOCKED)), default=self.clock_ns)

    def op_events(self) -> list[Event]:
        return [op.event for op in self.ops.values()]

    def exit_event(self) -> Event:
        now = self.clock_ns
        return Event(
            rank=self.rank,
            n=self.main.num_events,
            op="exit",
            issue_ns=now,
            start_ns=now,
            end_ns=now,
            step=self.step,
            status=self.why,
        )


def ranks_text(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0, 1 and 3"."""
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
