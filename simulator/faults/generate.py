"""Plans by rule: pure functions of their arguments and a seed, the same on every machine."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

from simulator.errors import FaultPlanError
from simulator.faults.fault import PHASES
from simulator.faults.plan import FaultPlan


def by_mtbf(world_size: int, num_steps: int, *, step_s: float, mtbf_s: float, seed: int = 0) -> FaultPlan:
    """Kills as independent failures with exponential distances: each rank fails every `mtbf_s` seconds on average.

    So the job fails every ``mtbf_s / world_size`` seconds. A failure is placed at the step that runs at its time, with
    `step_s` seconds a step, as if none before it had cost time.

    Raises:
        FaultPlanError: a time that is not above 0.
    """
    if not (step_s > 0 and mtbf_s > 0):
        raise FaultPlanError(f"by_mtbf needs step_s and mtbf_s above 0, got {step_s:g} and {mtbf_s:g}")
    points = []
    for rank in range(world_size):
        draws = _uniform(f"mtbf {seed} {rank}")
        at_s = _exponential(next(draws), mtbf_s)
        while at_s < num_steps * step_s:
            points.append((math.floor(at_s / step_s), rank))
            at_s += _exponential(next(draws), mtbf_s)
    plan = FaultPlan(seed)
    for step, rank in sorted(set(points)):
        plan = plan.kill(rank=rank, step=step)
    return plan


def phases_by_ranks(world_size: int, phases: Sequence[str] = PHASES, step: int = -1) -> list[FaultPlan]:
    """One plan for each phase and rank: a kill as the rank enters that phase (of `step`, if given)."""
    return [
        FaultPlan().kill(rank=rank, phase=phase, step=step if phase not in ("init", "load", "teardown") else -1)
        for phase in phases
        for rank in range(world_size)
    ]


def two_faults(world_size: int, num_steps: int, *, count: int = 10, seed: int = 0) -> list[FaultPlan]:
    """`count` plans with two kills: different ranks, steps drawn independently, so that some fall into one step.

    Raises:
        FaultPlanError: fewer than two ranks, or no step.
    """
    if world_size < 2 or num_steps < 1:
        raise FaultPlanError(f"two faults need two ranks and a step, got {world_size} ranks and {num_steps} steps")
    draws = _uniform(f"two faults {seed}")
    plans = []
    for _ in range(count):
        first = _below(draws, world_size)
        second = (first + 1 + _below(draws, world_size - 1)) % world_size
        plan = FaultPlan(seed)
        for rank in (first, second):
            plan = plan.kill(rank=rank, step=_below(draws, num_steps))
        plans.append(plan)
    return plans


def during_recovery(
    world_size: int, *, rank: int, step: int, phases: Sequence[str] = ("init", "load")
) -> list[FaultPlan]:
    """A kill of `rank` at `step`, then one in the next incarnation: in each phase, of each rank."""
    first = FaultPlan().kill(rank=rank, step=step)
    return [first.kill(rank=victim, phase=phase, incarnation=1) for phase in phases for victim in range(world_size)]


def _uniform(name: str) -> Iterator[float]:
    """Numbers in [0, 1) that depend on `name` only: 53 bits of SHA-256 of a counter."""
    count = 0
    while True:
        digest = hashlib.sha256(f"{name} {count}".encode()).digest()
        yield (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53
        count += 1


def _below(draws: Iterator[float], limit: int) -> int:
    return int(next(draws) * limit)


def _exponential(uniform: float, mean: float) -> float:
    """The inverse of the exponential distribution function, ``1 - exp(-t / mean)``."""
    return -mean * math.log1p(-uniform)
