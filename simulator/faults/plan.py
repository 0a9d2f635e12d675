"""A chain of faults, built by one method a kind or read from its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.errors import FaultPlanError
from simulator.faults.fault import Fault
from simulator.faults.parse import parse_calls

Steps = range | tuple[int, int] | None


@dataclass(frozen=True)
class FaultPlan:
    """A chain of faults: ``FaultPlan().kill(rank=2, step=7).slow(rank=1, factor=3, steps=range(4, 8))``.

    Every method returns a new plan and raises `FaultPlanError` for a fault that could never act. `incarnation`, which
    all of them take, ties a fault to one start of the job; without it, it acts in the first one that reaches its point.
    """

    seed: int = 0
    faults: tuple[Fault, ...] = field(default=())

    def kill(
        self,
        *,
        rank: int,
        step: int = -1,
        collective: int = -1,
        phase: str = "",
        file: int = -1,
        incarnation: int = -1,
    ) -> FaultPlan:
        """SIGKILL `rank` when it enters `step`, issues its k-th `collective`, enters `phase` (of `step`, if given), or
        is about to do its k-th `file` operation.

        Steps are those of `simulator.steps`, else finished `optimizer.step()` calls.
        """
        fault = Fault("kill", rank, step, collective, phase, file, incarnation=incarnation)
        return self._with(_at_one_point(fault))

    def hang(
        self,
        *,
        rank: int,
        step: int = -1,
        collective: int = -1,
        phase: str = "",
        file: int = -1,
        incarnation: int = -1,
    ) -> FaultPlan:
        """Let `rank` stop at a point for ever, alive but silent: the others run into the virtual timeout."""
        fault = Fault("hang", rank, step, collective, phase, file, incarnation=incarnation)
        return self._with(_at_one_point(fault))

    def preempt(
        self,
        *,
        rank: int,
        grace_s: float,
        step: int = -1,
        collective: int = -1,
        phase: str = "",
        file: int = -1,
        incarnation: int = -1,
    ) -> FaultPlan:
        """SIGTERM `rank` at a point, and SIGKILL it `grace_s` virtual seconds later if it is still there."""
        fault = Fault("preempt", rank, step, collective, phase, file, grace_s=float(grace_s), incarnation=incarnation)
        if grace_s < 0:
            raise FaultPlanError(f"preempt needs grace_s of 0 or more virtual seconds, got {grace_s:g}")
        return self._with(_at_one_point(fault))

    def slow(self, *, rank: int, factor: float, steps: Steps = None, incarnation: int = -1) -> FaultPlan:
        """Multiply the virtual compute time of `rank` by `factor`, in `steps` (from, to; end excluded) or always."""
        fault = Fault("slow", rank, factor=_factor("slow", factor), steps=_bounds("slow", steps))
        return self._with(replace(fault, incarnation=incarnation))

    def skip_collective(self, *, rank: int, collective: int, incarnation: int = -1) -> FaultPlan:
        """Let `rank` walk past its k-th `collective` as if an `if` had hidden the call from it."""
        if collective < 0:
            raise FaultPlanError("skip_collective needs collective=k, counted from 0")
        return self._with(Fault("skip_collective", rank, collective=collective, incarnation=incarnation))

    def corrupt(
        self,
        *,
        rank: int,
        bits: int | Sequence[int],
        step: int = -1,
        collective: int = -1,
        element: int = 0,
        where: str = "result",
        incarnation: int = -1,
    ) -> FaultPlan:
        """Flip `bits` of one element in the k-th `collective` of `rank`, or the first one of `step`; nobody is told.

        Args:
            bits: which bits of the element, 0 the lowest. element: index in the flattened tensors of the call.
            where: "result", what this rank gets out of the call, or "payload", what it puts in.
        """
        bits = (bits,) if isinstance(bits, int) else tuple(bits)
        if where not in ("result", "payload"):
            raise FaultPlanError(f"corrupt takes where='result' or where='payload', got {where!r}")
        if not bits or min(bits) < 0 or element < 0:
            raise FaultPlanError("corrupt needs bits and an element that count from 0")
        fault = Fault("corrupt", rank, step, collective, bits=bits, element=element, where=where)
        return self._with(_at_one_point(replace(fault, incarnation=incarnation)))

    def partition(
        self,
        *,
        sets: Sequence[Sequence[int]],
        step: int = -1,
        collective: int = -1,
        duration_s: float = -1.0,
        incarnation: int = -1,
    ) -> FaultPlan:
        """Cut the network between `sets` of ranks: no operation that needs two of them gets through.

        It begins on each rank when that rank enters `step` or issues its k-th `collective` (else at once), and lasts
        `duration_s` virtual seconds, or for ever. A rank in no set reaches everybody.
        """
        parts = tuple(tuple(part) for part in sets)
        ranks = [rank for part in parts for rank in part]
        if len(parts) < 2 or not all(parts) or len(ranks) != len(set(ranks)) or min(ranks) < 0:
            raise FaultPlanError(
                f"partition needs two or more sets of different ranks, sets=((0, 1), (2, 3)); got {sets}"
            )
        fault = Fault("partition", step=step, collective=collective, duration_s=float(duration_s), sets=parts)
        if step >= 0 and collective >= 0:
            raise FaultPlanError(f"{fault}: give step=... or collective=..., not both")
        return self._with(replace(fault, incarnation=incarnation))

    def slow_link(
        self,
        *,
        factor: float,
        ranks: Sequence[int] = (),
        nodes: Sequence[int] = (),
        steps: Steps = None,
        incarnation: int = -1,
    ) -> FaultPlan:
        """Multiply the time of every operation that has both `ranks`, or ranks of both `nodes`, in it by `factor`."""
        ends = tuple(ranks or nodes)
        if bool(ranks) == bool(nodes) or len(ends) != 2 or ends[0] == ends[1] or min(ends) < 0:
            raise FaultPlanError("slow_link needs two ends: ranks=(0, 5) or nodes=(0, 1)")
        fault = Fault("slow_link", factor=_factor("slow_link", factor), steps=_bounds("slow_link", steps))
        return self._with(replace(fault, ranks=tuple(ranks), nodes=tuple(nodes), incarnation=incarnation))

    def _with(self, fault: Fault) -> FaultPlan:
        needs_rank = fault.kind not in ("partition", "slow_link")
        if needs_rank and fault.rank < 0:
            raise FaultPlanError(f"{fault}: rank must be 0 or more")
        for name in ("rank", "step", "collective", "file", "element", "incarnation"):
            if not isinstance(getattr(fault, name), int):
                raise FaultPlanError(f"{fault}: {name} must be a whole number")
        return FaultPlan(self.seed, (*self.faults, fault))

    def of_rank(self, rank: int) -> tuple[Fault, ...]:
        """The faults that `rank` has to know of."""
        return tuple(fault for fault in self.faults if rank in fault.named_ranks or fault.nodes)

    def check_ranks(self, world_size: int) -> None:
        """Raise `FaultPlanError` for a fault that names a rank outside the world (of the first incarnation)."""
        for fault in self.faults:
            outside = [rank for rank in fault.named_ranks if rank >= world_size and fault.incarnation < 1]
            if outside:
                raise FaultPlanError(
                    f"{fault}: there is no rank {outside[0]} in a world of {world_size} (ranks 0 to {world_size - 1})"
                )

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))

    @staticmethod
    def parse(text: str, seed: int = 0) -> FaultPlan:
        """Read what `str(plan)` printed: ``kill(rank=2, step=3); slow(rank=1, factor=3)``."""
        plan = FaultPlan(seed)
        for kind, words in parse_calls(text):
            plan = getattr(plan, kind)(**words)
        return plan

    @staticmethod
    def of(plan: FaultPlan | str | None) -> FaultPlan:
        """A plan from a plan, its text, or nothing."""
        if plan is None:
            return FaultPlan()
        return FaultPlan.parse(plan) if isinstance(plan, str) else plan


def _at_one_point(fault: Fault) -> Fault:
    points = (fault.collective >= 0) + (fault.file >= 0) + (fault.step >= 0 or bool(fault.phase))
    if points != 1:
        example = f"{fault.kind}(rank=2, step=3)"
        raise FaultPlanError(f"{fault.kind} needs one point: step=... or collective=..., for example {example}")
    return fault


def _factor(kind: str, factor: float) -> float:
    if factor < 1:
        raise FaultPlanError(f"{kind} needs a factor of at least 1, got {factor:g}")
    return float(factor)


def _bounds(kind: str, steps: Steps) -> tuple[int, int] | None:
    if isinstance(steps, range) and steps.step != 1:
        raise FaultPlanError(f"{kind} takes consecutive steps only: range(start, stop)")
    return (steps.start, steps.stop) if isinstance(steps, range) else steps
