"""The points of a rank's program at which faults act: steps, collectives, phases, file operations.

Only the main thread has points: what another thread does at a given moment is not the same in every run.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from simulator import wire
from simulator.cluster import to_ns
from simulator.faults import Fault
from simulator.rank import threads

if TYPE_CHECKING:
    from simulator.rank.context import Context

#: What ends or interrupts a rank, as opposed to what changes one operation.
_AT_A_POINT = ("kill", "hang", "preempt")


class Wire(NamedTuple):
    """What the faults do to one operation on its way: a factor on its time; the partition that holds it up, and the
    virtual time at which that ends, -1 for never.
    """

    slow: float = 1.0
    cut: str = ""
    heals_ns: int = 0


_CLEAR = Wire()


class Points:
    """The faults of this rank and what has been reached. `healing`: partitions that began in an earlier incarnation,
    and when they end.
    """

    def __init__(
        self, ctx: Context, faults: tuple[Fault, ...], *, healing: dict[str, int], ranks_per_node: int
    ) -> None:
        self._ctx, self._ranks_per_node, self._has_faults = ctx, ranks_per_node, bool(faults)
        self._acting = [fault for fault in faults if fault.kind in _AT_A_POINT]
        self._on_calls = [fault for fault in faults if fault.kind in ("skip_collective", "corrupt")]
        self._links = [fault for fault in faults if fault.kind in ("slow_link", "partition")]
        self._heals_ns: dict[Fault, int] = {f: healing[str(f)] for f in self._links if str(f) in healing}
        self._begins_ns: dict[Fault, int] = dict.fromkeys(self._heals_ns, ctx.now_ns)
        self._told: set[Fault] = set()
        self._num_collectives = self._num_file_operations = 0
        self.need_phases = any(fault.phase for fault in self._acting)
        self.need_files = any(fault.file >= 0 or fault.phase.startswith("save-") for fault in self._acting)
        self._begin_partitions(step=-1, collective=-1)

    # ---- points ----
    def at_step(self, step: int) -> None:
        """A training step begins."""
        self._ctx.check_grace()
        self._begin_partitions(step=step, collective=-1)
        self._act([f for f in self._acting if f.step == step and not f.phase])

    def at_collective(self) -> list[Fault]:
        """The main thread is about to issue a collective; what is returned changes that call."""
        if not self._has_faults or self._ctx.thread is not threads.MAIN:
            return []
        self._ctx.check_grace()
        k, self._num_collectives = self._num_collectives, self._num_collectives + 1
        self._begin_partitions(step=-1, collective=k)
        self._act([f for f in self._acting if f.collective == k])
        step = max(self._ctx.step, 0)
        hit = [f for f in self._on_calls if f.collective == k or (f.collective < 0 and f.step == step)]
        self._on_calls = [f for f in self._on_calls if f not in hit]
        return hit

    def at_phase(self, phase: str) -> None:
        """The main thread enters a phase."""
        step = max(self._ctx.step, 0)
        if self._ctx.thread is threads.MAIN:
            self._act([f for f in self._acting if f.phase == phase and f.step in (-1, step)])

    def has_phase(self, phase: str) -> bool:
        """Whether a fault waits for this phase at this step."""
        return any(f.phase == phase and f.step in (-1, max(self._ctx.step, 0)) for f in self._acting)

    def at_file_operation(self) -> None:
        """The main thread is about to open a file for writing, rename or remove one."""
        if self._ctx.thread is threads.MAIN:
            k, self._num_file_operations = self._num_file_operations, self._num_file_operations + 1
            self._act([f for f in self._acting if f.file == k])

    # ---- what acts ----
    def _act(self, faults: list[Fault]) -> None:
        for fault in faults:
            self._acting.remove(fault)
            self._ctx.note(fault.kind, self._ctx.now_ns, str(fault))
            if fault.kind == "preempt":
                self._preempt(fault)
            else:
                self.end("killed" if fault.kind == "kill" else "hung")

    def _preempt(self, fault: Fault) -> None:
        """A real SIGTERM now; the end comes when the grace is over (`Context.obey`)."""
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.end("killed", signal.SIGTERM)
        self._ctx.dies_ns = self._ctx.now_ns + to_ns(fault.grace_s)
        self._ctx.link.note(wire.Doom(self._ctx.dies_ns))
        signal.raise_signal(signal.SIGTERM)
        self._ctx.check_grace()

    def end(self, why: wire.Why, number: signal.Signals = signal.SIGKILL) -> NoReturn:
        """What was granted is finished for the peers, then a real signal, with nothing unwound. A hung rank, too, is
        killed in the end: by whoever cleans up after the job.
        """
        self._ctx.leave(wire.Leave(why, self._ctx.now_ns))
        os.kill(os.getpid(), number)
        raise AssertionError("unreachable")

    # ---- the network ----
    def _begin_partitions(self, *, step: int, collective: int) -> None:
        for fault in self._links:
            if fault.kind != "partition" or fault in self._begins_ns:
                continue
            at_once = fault.step < 0 and fault.collective < 0
            if at_once or 0 <= fault.step <= step or 0 <= fault.collective <= collective:
                now = self._begins_ns[fault] = self._ctx.now_ns
                self._heals_ns[fault] = -1 if fault.duration_s < 0 else now + to_ns(fault.duration_s)

    def on_the_wire(self, ranks: tuple[int, ...]) -> Wire:
        """What the links between `ranks`, the members of one operation, do to it."""
        if not self._links:
            return _CLEAR
        slow, cut = 1.0, _CLEAR
        for fault in self._links:
            if not self._crosses(fault, ranks):
                continue
            if fault.kind == "slow_link" and fault.in_steps(self._ctx.step):
                slow *= fault.factor
                self._tell(fault, self._ctx.now_ns)
            elif fault.kind == "partition" and self._is_cut(fault):
                heals_ns = self._heals_ns[fault]
                if not cut.cut or heals_ns < 0 or 0 <= cut.heals_ns < heals_ns:
                    cut = Wire(1.0, str(fault), heals_ns)
                self._tell(fault, self._begins_ns[fault])
        return Wire(min(slow, 1e6), cut.cut, cut.heals_ns)

    def _is_cut(self, fault: Fault) -> bool:
        return fault in self._begins_ns and (self._heals_ns[fault] < 0 or self._ctx.now_ns < self._heals_ns[fault])

    def _crosses(self, fault: Fault, ranks: tuple[int, ...]) -> bool:
        """Whether an operation between `ranks` needs what the fault cuts or slows down."""
        if fault.kind == "partition":
            return sum(any(rank in part for rank in ranks) for part in fault.sets) > 1
        if fault.ranks:
            return set(fault.ranks) <= set(ranks)
        return set(fault.nodes) <= {rank // self._ranks_per_node for rank in ranks}

    def _tell(self, fault: Fault, since_ns: int) -> None:
        if fault not in self._told:
            self._told.add(fault)
            self._ctx.note(fault.kind, since_ns, str(fault))
