"""The state of this rank: its virtual clock, its step, its faults, its link. One per process; None outside a run."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

from simulator import wire
from simulator.cluster import to_ns
from simulator.errors import UsageError
from simulator.faults import Fault
from simulator.memory import cycles, report
from simulator.rank import threads
from simulator.rank.clock import RankThread
from simulator.rank.link import Link
from simulator.rank.points import Points
from simulator.rank.sites import call_site
from simulator.rank.streams import Stream

if TYPE_CHECKING:
    from simulator.memory.ledger import Ledger
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
        healing: dict[str, int],
        ranks_per_node: int,
        jitter: float = 0.0,
        jitter_seed: str = "",
    ) -> None:
        self.rank, self.faults, self.timeout_ns, self.reduction = rank, faults, timeout_ns, reduction
        self.link = Link(sock, self._on_reply)
        self.explicit_steps = False
        self.phase = self.own_phase = ""
        self.annotations: list[str] = []
        self.dies_ns = -1  # when the grace of a preemption is over
        self.works: dict[int, RankWork] = {}
        self.futures: dict[int, RankWork] = {}
        self.num_points = 0  # coordination points of the main thread so far: its budget of processor time starts again
        self._asking: dict[str, RankThread] = {}
        self._last_work = 0
        self._bye = False
        self._slow_told: set[Fault] = set()
        self._order: wire.Die | None = None
        self._was_stopped = False
        self.points = Points(self, faults, healing=healing, ranks_per_node=ranks_per_node)
        self._may_be_slow = any(fault.kind == "slow" for fault in faults)
        self._jitter, self._jitter_seed = jitter, jitter_seed
        self.ledger: Ledger | None = None
        self.sees_operators = False  # their time or memory is part of the trace
        self.charging: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext

    @property
    def thread(self) -> RankThread:
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
        me = threads.current()
        self.link.send(wire.Block(me.name, work.number, me.now_ns, me.is_aside))
        self._wait(lambda: work.is_decided)
        self.num_points += me is threads.MAIN

    def block_for(self, work: RankWork, patience_ns: int) -> None:
        """The same, but not for longer than `patience_ns`."""
        me = self._ask()
        self.link.send(wire.Block(me.name, work.number, me.now_ns, me.is_aside, patience_ns))
        self._wait(lambda: work.is_decided or me.answer is not None)
        self._take_answer(me)

    def _wait(self, is_resolved: Callable[[], bool]) -> None:
        """Read replies until then, or until the coordinator ends this rank while its main thread waits."""
        is_main = self.thread is threads.MAIN
        self.link.wait_until(lambda: is_resolved() or (is_main and self._order is not None))
        if is_main and (order := self._order) is not None:
            self._order = None
            self._obey(order)

    def poll(self, work: RankWork) -> None:
        """Ask whether `work` is done, in virtual time."""
        me = self._ask()
        self.link.send(wire.Poll(me.name, work.number, me.now_ns))
        self._wait(lambda: work.is_decided or me.answer is not None)
        self._take_answer(me)

    def ask_store(
        self,
        call: str,
        keys: tuple[str, ...],
        *,
        values: tuple[bytes, ...] = (),
        amount: int = 0,
        timeout_ns: int = 0,
        is_own: bool = False,
    ) -> wire.Answer:
        """A store call; the answer carries `error` when it timed out. `is_own`: the time-out is user code's."""
        me = self._ask()
        timeout_ns = timeout_ns if is_own else max(timeout_ns, self.timeout_ns)
        said = wire.StoreCall(me.name, call, keys, values, amount, timeout_ns, me.now_ns, call_site(), is_own)
        self.link.send(said)
        self._wait(lambda: me.answer is not None)
        answer = self._take_answer(me)
        assert answer is not None
        return answer

    def ask_person(self, prompt: str) -> str | None:
        """A line from the person who debugs this rank; None at the end of input. Everybody else waits, in no time."""
        me = self._ask()
        self.link.send(wire.Ask(me.name, prompt, me.now_ns))
        self._wait(lambda: me.answer is not None)
        answer = self._take_answer(me)
        assert answer is not None
        return answer.values[0].decode() if answer.values else None

    def _ask(self) -> RankThread:
        me = self.thread
        me.answer = None
        self._asking[me.name] = me
        return me

    def _take_answer(self, me: RankThread) -> wire.Answer | None:
        answer, me.answer = me.answer, None
        self._asking.pop(me.name, None)
        if answer is not None:
            me.advance(answer.now_ns)
        self.num_points += me is threads.MAIN
        return answer

    def leave(self, leave: wire.Leave) -> None:
        """Say the last words and serve peers until the coordinator says bye."""
        if self.ledger is not None:
            leave.memory = report.encode(self.ledger)
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
            case wire.Die():
                self._order = reply

    # ---- time ----
    def compute(self, seconds: float) -> None:
        """Charge virtual compute time, stretched by the slow faults that act now."""
        if not seconds >= 0:
            raise UsageError(f"compute({seconds!r}): virtual time only moves forward, give 0 or more seconds")
        if duration := to_ns(seconds):
            self.charge(self.thread, duration)

    def charge(self, me: RankThread, duration_ns: int, launch_ns: int = 0, flops: int = 0) -> None:
        """Put work on a thread's current stream: it begins when the host has launched it and the stream is free."""
        if self._may_be_slow:
            factor = self._slow_factor()
            duration_ns, launch_ns = round(duration_ns * factor), round(launch_ns * factor)
        if self._jitter:
            chance = me.chance or random.Random(f"{self._jitter_seed}:{me.name}")
            me.chance = chance
            duration_ns = round(duration_ns * chance.lognormvariate(0.0, self._jitter))
        me.host_ns += launch_ns
        stream = me.stream
        start = max(me.host_ns, stream.ready_ns)
        stream.ready_ns = start + duration_ns
        self._tell_of_compute(me, start, flops)

    def _tell_of_compute(self, me: RankThread, start_ns: int, flops: int) -> None:
        """Lengthen the thread's stretch of compute, or begin one."""
        stream, stretch = me.stream, self.link.stretches.get(me.name)
        if stretch is not None:
            if stretch.stream == stream.name and stretch.step == me.step and stretch.phase == self.phase:
                stretch.end_ns = stream.ready_ns
                stretch.flops += flops
                if self.ledger is not None and not threads.MAIN.num_children:
                    stretch.live_bytes = self.ledger.live_bytes  # beside other threads it depends on who was faster
                return
            self.link.close_stretch(me.name)
        self.link.stretches[me.name] = wire.Note(
            me.name, "compute", start_ns, stream.ready_ns, me.step, self.phase, call_site(), "", stream.name, flops
        )

    def on_stall(self, stream: Stream, until_ns: int) -> None:
        """A stream is about to wait for another one: the compute stream's waits are told, they are exposed time."""
        me = self.thread
        self.link.close_stretch(me.name)
        if stream is me.default_stream and until_ns > (start := max(me.host_ns, stream.ready_ns)):
            self.link.note(
                wire.Note(me.name, "stream_wait", start, until_ns, me.step, self.phase, call_site(), stream=stream.name)
            )

    def sleep(self, seconds: float) -> None:
        """Sleep in virtual time; whatever happens earlier happens first."""
        me = self._ask()
        began = me.now_ns
        self.link.send(wire.Sleep(me.name, began + to_ns(seconds), began))
        self._wait(lambda: me.answer is not None)
        self._take_answer(me)
        self.note("sleep", began)

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

    # ---- points where faults act: see simulator.rank.points ----
    def begin_step(self, step: int) -> None:
        """A training step begins: a coordination point."""
        self.thread.step = step
        self.enter_phase("")
        if self.ledger is not None:
            cycles.collect()
        self.note("step", self.now_ns)
        self.points.at_step(step)

    def enter_phase(self, phase: str) -> None:
        """The phase that events carry from now on, unless user code named one."""
        self.own_phase = phase
        self.phase = self.annotations[-1] if self.annotations else phase

    def begin_annotation(self, phase: str) -> None:
        """`simulator.annotate`; a coordination point."""
        self.annotations.append(phase)
        self.phase = phase
        self.points.at_phase(phase)

    def end_annotation(self) -> None:
        self.annotations.pop()
        self.enter_phase(self.own_phase)

    def check_grace(self) -> None:
        """A preempted rank whose grace is over ends here."""
        if 0 <= self.dies_ns <= self.now_ns and self.thread is threads.MAIN:
            self.points.end("killed")

    def _obey(self, order: wire.Die) -> NoReturn:
        """The coordinator ends this rank while it waits. An agent's SIGTERM is heard first by whoever listens."""
        self.thread.advance(order.now_ns)
        if order.why == "stopped" and not self._was_stopped:
            self._was_stopped = True
            if callable(signal.getsignal(signal.SIGTERM)):
                signal.raise_signal(signal.SIGTERM)
        self.points.end(order.why)


current: Context | None = None


def get() -> Context:
    """The context of this rank. Raises UsageError in a process that a rank forked."""
    if current is None:
        raise UsageError("this process was started by a rank and is none: call collectives in the rank itself")
    return current
