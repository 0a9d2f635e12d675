"""Shrinking: the smallest plan that still fails is the one to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from simulator.errors import FaultPlanError
from simulator.faults.fault import Fault
from simulator.faults.plan import FaultPlan

_ALL_POINTS = 16  # up to here every earlier point is tried, beyond it halves


def shrink(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """The smallest plan that is found from `plan` for which `fails(plan)` is still true.

    In this order: fewest faults (every single one and every pair are tried, then one fault less at a time), the
    earliest point of each, fewest ranks (of a partition, and over the plan). `fails` must be a function of the plan
    alone; it is asked once for each plan, and the same questions in the same order every time.

    Raises:
        FaultPlanError: `plan` itself does not fail.
    """
    known: dict[str, bool] = {}

    def still_fails(faults: Sequence[Fault]) -> bool:
        smaller = FaultPlan(plan.seed, tuple(faults))
        if str(smaller) not in known:
            known[str(smaller)] = bool(fails(smaller))
        return known[str(smaller)]

    if not still_fails(plan.faults):
        raise FaultPlanError(f"nothing to shrink: the plan {plan} does not fail")
    faults = _fewest(plan.faults, still_fails)
    while (smaller := _simplified(faults, still_fails)) != faults:
        faults = smaller
    return FaultPlan(plan.seed, faults)


_Faults = tuple[Fault, ...]
_Test = Callable[[Sequence[Fault]], bool]


def _fewest(faults: _Faults, still_fails: _Test) -> _Faults:
    for size in range(min(3, len(faults))):
        for chosen in combinations(faults, size):
            if still_fails(chosen):
                return chosen
    position = 0
    while position < len(faults):
        without = faults[:position] + faults[position + 1 :]
        if still_fails(without):
            faults = without
        else:
            position += 1
    return faults


def _simplified(faults: _Faults, still_fails: _Test) -> _Faults:
    """Each fault in turn replaced by its simplest form that still fails."""
    for position in range(len(faults)):
        for candidates in (_earlier, _on_fewer_ranks):
            for simpler in candidates(faults, position):
                changed = (*faults[:position], simpler, *faults[position + 1 :])
                if still_fails(changed):
                    faults = changed
                    break
    return faults


def _earlier(faults: _Faults, position: int) -> Iterator[Fault]:
    """The same fault at earlier points, the earliest first."""
    fault = faults[position]
    for name in ("incarnation", "step", "collective", "file"):
        for value in _smaller(getattr(fault, name)):
            changed: Any = {name: value}
            yield replace(fault, **changed)
    if fault.steps is not None:
        first, end = fault.steps
        for start in _smaller(first):
            yield replace(fault, steps=(start, start + end - first))


def _smaller(value: int) -> Iterator[int]:
    yield from range(min(value, _ALL_POINTS))
    halves = [value - (value >> shift) for shift in range(1, value.bit_length() + 1)]
    yield from (half for half in halves if _ALL_POINTS <= half < value)


def _on_fewer_ranks(faults: _Faults, position: int) -> Iterator[Fault]:
    """The same fault with a rank less in a set, or on a rank that the plan has anyway."""
    fault = faults[position]
    for number, part in enumerate(fault.sets):
        for rank in part if len(part) > 1 else ():
            smaller = tuple(other for other in part if other != rank)
            yield replace(fault, sets=(*fault.sets[:number], smaller, *fault.sets[number + 1 :]))
    others = {rank for other in (*faults[:position], *faults[position + 1 :]) for rank in other.named_ranks}
    if fault.rank >= 0 and fault.rank not in others:
        for rank in sorted(others):
            yield replace(fault, rank=rank)
    if len(fault.sets) > 2:
        for number in range(len(fault.sets)):
            yield replace(fault, sets=(*fault.sets[:number], *fault.sets[number + 1 :]))
