"""Fault plans: what goes wrong in a run, and exactly where.

A plan is immutable, prints as the text that `FaultPlan.parse` reads back, and is keyed to named points of the program
(a step, the k-th collective of a rank), never to wall-clock time: that is why the same plan does the same thing on
every machine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from simulator.errors import FaultPlanError


@dataclass(frozen=True)
class Fault:
    """One fault. `rank`, `step` and `collective` (the k-th collective that the rank issues) count from 0; -1 means not
    given.
    """

    kind: str
    rank: int
    step: int = -1
    collective: int = -1
    factor: float = 1.0
    steps: tuple[int, int] | None = None

    def __str__(self) -> str:
        words = [f"rank={self.rank}"]
        words += [
            f"{name}={value}" for name, value in (("step", self.step), ("collective", self.collective)) if value >= 0
        ]
        if self.kind == "slow":
            words.append(f"factor={self.factor:g}")
        if self.steps is not None:
            words.append(f"steps=({self.steps[0]}, {self.steps[1]})")
        return f"{self.kind}({', '.join(words)})"


@dataclass(frozen=True)
class FaultPlan:
    """A chain of faults: ``FaultPlan().kill(rank=2, step=7).slow(rank=1, factor=3, steps=range(4, 8))``."""

    seed: int = 0
    faults: tuple[Fault, ...] = field(default=())

    def kill(self, *, rank: int, step: int = -1, collective: int = -1) -> FaultPlan:
        """SIGKILL `rank` when it enters `step`, or as it issues its k-th `collective`.

        Steps are those of `simulator.steps`, else finished `optimizer.step()` calls.
        """
        if (step >= 0) == (collective >= 0):
            raise FaultPlanError("kill needs one point: step=... or collective=..., for example kill(rank=2, step=3)")
        return self._with(Fault("kill", rank, step=step, collective=collective))

    def slow(self, *, rank: int, factor: float, steps: range | tuple[int, int] | None = None) -> FaultPlan:
        """Multiply the virtual compute time of `rank` by `factor`, in `steps` (from, to; end excluded) or always."""
        if factor < 1:
            raise FaultPlanError(f"slow needs a factor of at least 1, got {factor:g}")
        if isinstance(steps, range) and steps.step != 1:
            raise FaultPlanError("slow takes consecutive steps only: range(start, stop)")
        bounds = (steps.start, steps.stop) if isinstance(steps, range) else steps
        return self._with(Fault("slow", rank, factor=float(factor), steps=bounds))

    def skip_collective(self, *, rank: int, collective: int) -> FaultPlan:
        """Let `rank` walk past its k-th `collective` as if an `if` had hidden the call from it."""
        if collective < 0:
            raise FaultPlanError("skip_collective needs collective=k, counted from 0")
        return self._with(Fault("skip_collective", rank, collective=collective))

    def _with(self, fault: Fault) -> FaultPlan:
        if fault.rank < 0:
            raise FaultPlanError(f"{fault}: rank must be 0 or more")
        return FaultPlan(self.seed, (*self.faults, fault))

    def of_rank(self, rank: int) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.rank == rank)

    def check_ranks(self, world_size: int) -> None:
        """Raise `FaultPlanError` for a fault that names a rank outside the world."""
        for fault in self.faults:
            if fault.rank >= world_size:
                raise FaultPlanError(
                    f"{fault}: there is no rank {fault.rank} in a world of {world_size} (ranks 0 to {world_size - 1})"
                )

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))

    @staticmethod
    def parse(text: str, seed: int = 0) -> FaultPlan:
        """Read what `str(plan)` printed: ``kill(rank=2, step=3); slow(rank=1, factor=3)``."""
        plan = FaultPlan(seed)
        for part in filter(None, (piece.strip() for piece in text.split(";"))):
            kind, words = _parse_call(part)
            plan = getattr(plan, kind)(**words)
        return plan

    @staticmethod
    def of(plan: FaultPlan | str | None) -> FaultPlan:
        """A plan from a plan, its text, or nothing."""
        if plan is None:
            return FaultPlan()
        return FaultPlan.parse(plan) if isinstance(plan, str) else plan


KINDS: dict[str, frozenset[str]] = {
    "kill": frozenset({"rank", "step", "collective"}),
    "slow": frozenset({"rank", "factor", "steps"}),
    "skip_collective": frozenset({"rank", "collective"}),
}
_REQUIRED = {"kill": {"rank"}, "slow": {"rank", "factor"}, "skip_collective": {"rank", "collective"}}


def _parse_call(part: str) -> tuple[str, dict[str, Any]]:
    """`kill(rank=2, step=3)` -> ("kill", {...}). Only literals: a plan is data, never code."""
    try:
        call = ast.parse(part, mode="eval").body
    except SyntaxError:
        raise FaultPlanError(f"cannot read the fault {part!r}: write it as kill(rank=2, step=3)") from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args):
        raise FaultPlanError(f"cannot read the fault {part!r}: write it as kill(rank=2, step=3)")
    kind = call.func.id
    if kind not in KINDS:
        raise FaultPlanError(f"unknown fault {kind!r}: use {', '.join(KINDS)}")
    words = {str(word.arg): _literal(part, word.value) for word in call.keywords}
    _complain(part, "does not take", set(words) - KINDS[kind])
    _complain(part, "needs", _REQUIRED[kind] - set(words))
    return kind, words


def _complain(part: str, verb: str, names: Iterable[str]) -> None:
    if names := sorted(names):
        raise FaultPlanError(f"the fault {part!r} {verb} {', '.join(names)}")


def _literal(part: str, node: ast.expr) -> Any:
    """A number, or a (from, to) pair of numbers; `range(a, b)` is read as the pair."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        node = ast.Tuple(elts=node.args, ctx=ast.Load())
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    pair = isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value)
    if not pair and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise FaultPlanError(f"the fault {part!r}: {ast.unparse(node)} is not a number or a range")
    return value


assert all(names <= {f.name for f in fields(Fault)} for names in KINDS.values())
