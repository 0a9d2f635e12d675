"""Check of lab1/choose: the cheapest plan that keeps a budget, or which limit forbids all of them.

The answer is compared with brute force over the same plans, on hardware that is drawn. Each case is asked four times:
as it is, with the plans in another order, with twice the bandwidth, with half the memory.
"""

from __future__ import annotations

from typing import Any

from autograder.checks.check import Check, Property
from autograder.checks.compare import wrong_number
from autograder.checks.lab1.budget import Budget
from autograder.checks.lab1.choose_cases import (
    GIB,
    LIMITS,
    VARIANTS,
    Answer,
    Case,
    cost,
    drawn,
    fits,
    limits_of,
    oracle,
    visible,
)
from autograder.checks.seen import Fault, Seen
from simulator.planner import MODELS, predict

WITHIN = 0.05
#: Of what is printed: a student may round.
ROUNDING = 0.005


def on_rank(case: Case, choose: Any) -> list[Answer]:
    """The student's four answers."""
    return [_answer(choose(MODELS[case.model], cluster, budget), budget) for cluster, budget in case.asked()]


def _answer(said: Any, budget: Budget) -> Answer:
    if said.get("infeasible"):
        return Answer(infeasible=str(said["infeasible"])[:40])
    numbers = {name: float(said[name]) for name in LIMITS}
    return Answer("", _index(said["plan"], budget), _index(said["fallback"], budget), numbers)


def _index(layout: Any, budget: Budget) -> int:
    return budget.plans.index(layout) if layout in budget.plans else -1


def _wrong_reason(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """A plan where none is possible, none where one is, or another reason."""
    for name, said, (cluster, budget) in zip(VARIANTS, seen.said[0], seen.case.asked(), strict=True):
        best = oracle(seen.case, cluster, budget)
        if said.infeasible == best.infeasible:
            continue
        says = f"infeasible because of {said.infeasible}" if said.infeasible else "a plan"
        there = "there is none" if best.infeasible else f"{budget.plans[best.plan].name} keeps every limit"
        text = f"{name}: you say {says}, but {there}"
        text += f"; what forbids all of them first is the {best.infeasible}." if best.infeasible else "."
        return Fault(text, best.infeasible or "a plan", said.infeasible or "a plan")
    return None


def _none_at_all(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """No plan in the plain question where there is one: then nothing about the plan can be right."""
    best = oracle(seen.case, *seen.case.asked()[0])
    if best.infeasible or not seen.said[0][0].infeasible:
        return None
    wanted = seen.case.asked()[0][1].plans[best.plan].name
    return Fault(f"there is no plan to look at, although {wanted} keeps every limit.", wanted, "no plan")


def _wrong_plan(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """A plan that breaks a limit, or costs over 5 % more than the cheapest."""
    case = seen.case
    if missing := _none_at_all(seen):
        return missing
    for name, said, (cluster, budget) in zip(VARIANTS, seen.said[0], case.asked(), strict=True):
        best = oracle(case, cluster, budget)
        if said.infeasible or best.infeasible:
            continue
        wanted = f"{budget.plans[best.plan].name} for {best.limits['dollars']:,.0f} $"
        if said.plan < 0:
            return Fault(f"{name}: the plan that you return is none of budget.plans.", wanted, "another layout")
        found = predict(MODELS[case.model], budget.plans[said.plan], cluster)
        hours, dollars = cost(case, found, budget)
        text = f"{name}: {found.layout.name} needs {found.memory.total / GIB:.1f} GiB, {hours:,.1f} hours and "
        text += f"{dollars:,.0f} $."
        broken = not fits(found, cluster, budget) or hours > budget.hours or dollars > budget.dollars
        if broken or dollars > best.limits["dollars"] * (1 + WITHIN):
            more = " That breaks a limit." if broken else f" {wanted} would do."
            return Fault(text + more, wanted, found.layout.name)
    return None


def _inconsistent(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """Order matters, more bandwidth costs more, or less memory costs less."""
    plain, ordered, fast, small = (a.limits.get("dollars", float("inf")) for a in seen.said[0])
    if abs(plain - ordered) > 1e-6 * plain < float("inf"):
        text = f"{plain:,.2f} $, but {ordered:,.2f} $ when the same plans come in another order."
        return Fault(text, "the same", f"{ordered:,.2f} $")
    if fast > plain * (1 + 1e-6):
        return Fault(
            f"{plain:,.2f} $, but {fast:,.2f} $ with twice the bandwidth.", "at most as much", f"{fast:,.2f} $"
        )
    if small < plain * (1 - 1e-6):
        return Fault(f"{plain:,.2f} $, but {small:,.2f} $ with half the memory.", "at least as much", f"{small:,.2f} $")
    return None


def _wrong_limits(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """Numbers that are not those of the plan that was chosen."""
    case = seen.case
    if missing := _none_at_all(seen):
        return missing
    for said, (cluster, budget) in zip(seen.said[0], case.asked(), strict=True):
        if said.infeasible or said.plan < 0:
            continue
        found = predict(MODELS[case.model], budget.plans[said.plan], cluster)
        wanted = limits_of(found, *cost(case, found, budget), budget, MODELS[case.model].seq_len)
        for name in LIMITS:
            what = f"{name} of {found.layout.name}"
            if fault := wrong_number(what, None, said.limits[name], wanted[name], ROUNDING):
                return fault
    return None


def _wrong_fallback(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """Another plan than the fastest that fits on what is left when a node is gone."""
    if missing := _none_at_all(seen):
        return missing
    for said, (cluster, budget) in zip(seen.said[0], seen.case.asked(), strict=True):
        best = oracle(seen.case, cluster, budget)
        if said.infeasible or best.infeasible or said.fallback == best.fallback:
            continue
        names = [budget.plans[k].name if k >= 0 else "None" for k in (best.fallback, said.fallback)]
        left = budget.gpus - cluster.gpus_per_node
        text = f"with {left} GPUs left the fallback is {names[0]}, you say {names[1]}."
        return Fault(text, names[0], names[1])
    return None


CHECK = Check(
    case=Case,
    said=list[Answer],
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("infeasible", "Whether and why no plan is possible", _wrong_reason, "reported"),
        Property("plan", "Another plan is better", _wrong_plan, "reported"),
        Property("consistency", "The answer changes where it must not", _inconsistent, "reported", after="infeasible"),
        Property("limits", "The limits are not those of the plan", _wrong_limits, "reported"),
        Property("fallback", "The fallback is another plan", _wrong_fallback, "reported"),
    ),
)
