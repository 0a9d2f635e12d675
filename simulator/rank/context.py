"""The state of this rank: its virtual clock, its step, its faults, its link. One per process; None outside a run."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from simulator import wire
from simulator.cluster import to_ns
from simulator.errors import UsageError
from simulator.faults import Fault
from simulator.rank.link import Link
from simulator.rank.sites import call_site

if TYPE_CHECKING:
    from simulator.rank.work import RankWork


class Context:
    """Everything a rank knows of its run."""

    def __init__(
        self,
        rank: int,
        sock: socket.socket,
        faults: tuple[Fault, ...],
        *,
        timeout_ns: int,
        reduction: str,
        cpu_limit_s: float,
    ) -> None:
        self.rank, self.faults, self.timeout_ns, self.reduction = rank, faults, timeout_ns, reduction
        self.link = Link(sock, self._on_reply)
        self.now_ns = 0
        self.step = -1
        self.explicit_steps = False
        self.phase = ""
        self.num_collectives = 0
        self.works: dict[int, RankWork] = {}
        self.futures: dict[int, RankWork] = {}
        self._last_work = 0
        self._answer: wire.Answer | None = None
        self._bye = False
        self._cpu_limit_s = cpu_limit_s
        self._slow_told: set[Fault] = set()
        self.on_spin: Callable[[], NoReturn] | None = None

    # ---- talking ----
    def next_work(self) -> int:
        self._last_work += 1
        return self._last_work

    def block(self, work: RankWork) -> None:
        """Wait until `work` may run or has failed."""
        self.link.send(wire.Block(work.number, self.now_ns))
        self.link.wait_until(lambda: work.is_decided)
        self.rearm()

    def poll(self, work: RankWork) -> None:
        """Ask whether `work` is done, in virtual time."""
        self._answer = None
        self.link.send(wire.Poll(work.number, self.now_ns))
        self.link.wait_until(lambda: work.is_decided or self._answer is not None)
        self.rearm()

    def ask_store(
        self, call: str, keys: tuple[str, ...], *, values: tuple[bytes, ...] = (), amount: int = 0, timeout_ns: int = 0
    ) -> wire.Answer:
        """A store call; the answer carries `error` when it timed out."""
        self._answer = None
        timeout_ns = max(timeout_ns, self.timeout_ns)
        self.link.send(wire.StoreCall(call, keys, values, amount, timeout_ns, self.now_ns, call_site()))
        self.link.wait_until(lambda: self._answer is not None)
        self.rearm()
        answer: wire.Answer | None = self._answer
        assert answer is not None
        return answer

    def leave(self, leave: wire.Leave) -> None:
        """Say the last words and serve peers until the coordinator says bye."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.link.send(leave)
        self.link.wait_until(lambda: self._bye)

    def _on_reply(self, reply: wire.Reply) -> None:
        match reply:
            case wire.Go():
                self.works[reply.work].launch(reply.end_ns, reply.source)
            case wire.Fail():
                self.works[reply.work].fail(reply.kind, reply.text, reply.now_ns)
            case wire.Answer():
                self._answer = reply
                self.now_ns = max(self.now_ns, reply.now_ns)
            case wire.Bye():
                self._bye = True

    # ---- time ----
    def compute(self, seconds: float) -> None:
        """Charge virtual compute time, stretched by the slow faults that act now."""
        if not seconds >= 0:
            raise UsageError(f"compute({seconds!r}): virtual time only moves forward, give 0 or more seconds")
        start, duration = self.now_ns, to_ns(seconds * self._slow_factor())
        self.now_ns += duration
        if duration:
            self.link.note(wire.Note("compute", start, self.now_ns, self.step, self.phase, call_site()))

    def _slow_factor(self) -> float:
        factor = 1.0
        for fault in self.faults:
            if fault.kind == "slow" and (fault.steps is None or fault.steps[0] <= self.step < fault.steps[1]):
                factor *= fault.factor
                if fault not in self._slow_told:
                    self._slow_told.add(fault)
                    self.fault_note(fault)
        return factor

    # ---- points where faults act ----
    def begin_step(self, step: int) -> None:
        """A training step begins: a coordination point."""
        self.step = step
        self.link.note(wire.Note("step", self.now_ns, self.now_ns, step, self.phase, call_site()))
        for fault in self.faults:
            if fault.kind == "kill" and fault.step == step:
                self.die(fault)

    def at_collective(self) -> Fault | None:
        """A collective is about to be issued: dies here if the plan says so; a fault means: skip it."""
        k, self.num_collectives = self.num_collectives, self.num_collectives + 1
        for fault in self.faults:
            if fault.collective == k:
                if fault.kind == "kill":
                    self.die(fault)
                self.fault_note(fault)
                return fault
        return None

    def fault_note(self, fault: Fault) -> None:
        self.link.note(wire.Note(fault.kind, self.now_ns, self.now_ns, self.step, self.phase, call_site(), str(fault)))

    def die(self, fault: Fault) -> NoReturn:
        """A planned kill: what was granted is finished for the peers, then a real SIGKILL, with nothing unwound."""
        self.fault_note(fault)
        self.leave(wire.Leave("killed", self.now_ns))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    # ---- processor time ----
    def rearm(self) -> None:
        """A coordination point was reached: the budget of processor time starts again."""
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_PROF, self._cpu_limit_s)


current: Context | None = None


def get() -> Context:
    """The context of this rank; a bug of ours if there is none."""
    assert current is not None, "not inside a rank"
    return current
