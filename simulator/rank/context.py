"""The state of this rank: its virtual clock, its step, its faults, its link. One per process; None outside a run."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, NoReturn

from simulator import wire
from simulator.cluster import to_ns
from simulator.errors import UsageError
from simulator.faults import Fault
from simulator.rank import threads
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
        self.explicit_steps = False
        self.phase = ""
        self.num_collectives = 0
        self.works: dict[int, RankWork] = {}
        self.futures: dict[int, RankWork] = {}
        self._asking: dict[str, threads.RankThread] = {}
        self._last_work = 0
        self._bye = False
        self._cpu_limit_s = cpu_limit_s
        self._slow_told: set[Fault] = set()

    @property
    def thread(self) -> threads.RankThread:
        """The thread that runs this code."""
        return threads.current()

    @property
    def now_ns(self) -> int:
        return threads.current().now_ns

    @property
    def step(self) -> int:
        return threads.current().step

    # ---- talking ----
    def next_work(self) -> int:
        self._last_work += 1
        return self._last_work

    def block(self, work: RankWork) -> None:
        """Wait until `work` may run or has failed."""
        self.link.send(wire.Block(self.thread.name, work.number, self.now_ns))
        self.link.wait_until(lambda: work.is_decided)
        self.rearm()

    def poll(self, work: RankWork) -> None:
        """Ask whether `work` is done, in virtual time."""
        me = self._ask()
        self.link.send(wire.Poll(me.name, work.number, me.now_ns))
        self.link.wait_until(lambda: work.is_decided or me.answer is not None)
        self._take_answer(me)

    def ask_store(
        self, call: str, keys: tuple[str, ...], *, values: tuple[bytes, ...] = (), amount: int = 0, timeout_ns: int = 0
    ) -> wire.Answer:
        """A store call; the answer carries `error` when it timed out."""
        me = self._ask()
        timeout_ns = max(timeout_ns, self.timeout_ns)
        self.link.send(wire.StoreCall(me.name, call, keys, values, amount, timeout_ns, me.now_ns, call_site()))
        self.link.wait_until(lambda: me.answer is not None)
        answer = self._take_answer(me)
        assert answer is not None
        return answer

    def _ask(self) -> threads.RankThread:
        me = self.thread
        me.answer = None
        self._asking[me.name] = me
        return me

    def _take_answer(self, me: threads.RankThread) -> wire.Answer | None:
        answer, me.answer = me.answer, None
        self._asking.pop(me.name, None)
        if answer is not None:
            me.advance(answer.now_ns)
        self.rearm()
        return answer

    def leave(self, leave: wire.Leave) -> None:
        """Say the last words and serve peers until the coordinator says bye."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.link.send(leave)
        self.link.wait_until(lambda: self._bye)

    def _on_reply(self, reply: wire.Reply) -> None:
        """Called in whichever thread reads the socket."""
        match reply:
            case wire.Go():
                self.works[reply.work].launch(reply.end_ns, reply.source)
            case wire.Fail():
                self.works[reply.work].fail(reply.kind, reply.text, reply.now_ns)
            case wire.Answer():
                self._asking.pop(reply.thread).answer = reply
            case wire.Bye():
                self._bye = True

    # ---- time ----
    def compute(self, seconds: float) -> None:
        """Charge virtual compute time, stretched by the slow faults that act now."""
        if not seconds >= 0:
            raise UsageError(f"compute({seconds!r}): virtual time only moves forward, give 0 or more seconds")
        me, duration = self.thread, to_ns(seconds * self._slow_factor())
        start, me.now_ns = me.now_ns, me.now_ns + duration
        if duration:
            self.note("compute", start)

    def note(self, op: str, start_ns: int, detail: str = "") -> None:
        """Tell of something local that lasted from `start_ns` until now."""
        me = self.thread
        self.link.note(wire.Note(me.name, op, start_ns, me.now_ns, me.step, self.phase, call_site(), detail))

    def _slow_factor(self) -> float:
        factor = 1.0
        for fault in self.faults:
            if fault.kind == "slow" and (fault.steps is None or fault.steps[0] <= self.step < fault.steps[1]):
                factor *= fault.factor
                if fault not in self._slow_told:
                    self._slow_told.add(fault)
                    self.note(fault.kind, self.now_ns, str(fault))
        return factor

    # ---- points where faults act ----
    def begin_step(self, step: int) -> None:
        """A training step begins: a coordination point."""
        self.thread.step = step
        self.note("step", self.now_ns)
        for fault in self.faults:
            if fault.kind == "kill" and fault.step == step:
                self.die(fault)

    def at_collective(self) -> Fault | None:
        """The main thread is about to issue a collective: it dies here if the plan says so; a fault means: skip it."""
        if self.thread is not threads.MAIN:
            return None
        k, self.num_collectives = self.num_collectives, self.num_collectives + 1
        for fault in self.faults:
            if fault.collective == k:
                if fault.kind == "kill":
                    self.die(fault)
                return fault
        return None

    def die(self, fault: Fault) -> NoReturn:
        """A planned kill: what was granted is finished for the peers, then a real SIGKILL, with nothing unwound."""
        self.note(fault.kind, self.now_ns, str(fault))
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
