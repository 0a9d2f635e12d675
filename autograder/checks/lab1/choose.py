"""Check of lab1/choose: the cheapest plan that keeps a budget, or which limit forbids all of them.

The answer is compared with brute force over the same plans, on hardware that is drawn. Each case is asked four times:
as it is, with the plans in another order, with twice the bandwidth, with half the memory.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.compare import wrong_number
from autograder.checks.lab1.budget import Budget, dozen, make_cluster
from autograder.checks.seen import Fault, Seen
from simulator.cluster import Cluster
from simulator.planner import MODELS, Prediction, predict

GIB = 2**30
REASONS = ("memory", "deadline", "dollars")
WITHIN = 0.05
LIMITS = ("step_s", "hours", "dollars", "tokens_per_s")
#: Of what is printed: a student may round.
ROUNDING = 0.005
#: No drawn limit is closer than this to what decides.
CLEAR = 0.03
VARIANTS = ("as it is", "in another order", "with twice the bandwidth", "with half the memory")
Number = Annotated[int, msgspec.Meta(ge=1, le=10**7)]


class Case(cases.Case, frozen=True):
    """A model, hardware, and a budget."""

    model: Literal["1b", "7b", "13b", "30b"] = "7b"
    gpus: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16
    batch: Number = 256
    gpus_per_node: Literal[4, 8] = 8
    tflops: Number = 300
    memory_gib: Number = 80
    intra: Number = 200
    inter: Number = 25
    billion_tokens: Number = 10
    hours: Number = 500
    dollars: Number = 100_000

    @property
    def label(self) -> str:
        """The case in words."""
        gpu = f"{self.gpus} GPUs of {self.memory_gib} GiB and {self.tflops} TFLOP/s, {self.inter} GB/s between nodes"
        return f"{self.model} on {gpu}, {self.hours} hours, {self.dollars} dollars"

    def asked(self) -> list[tuple[Cluster, Budget]]:
        """The four questions, in the order of VARIANTS."""
        model = MODELS[self.model]
        plans = dozen(model, self.gpus, self.batch, self.gpus_per_node)
        numbers = (self.tflops, self.memory_gib, self.gpus_per_node)
        plain = make_cluster(*numbers, self.intra, self.inter)
        fast = make_cluster(*numbers, 2 * self.intra, 2 * self.inter)
        small = replace(plain, gpu=replace(plain.gpu, memory_gib=self.memory_gib / 2))
        tokens = self.billion_tokens * 1e9
        budget = Budget(self.gpus, self.batch, tokens, self.hours, self.dollars, 2.0, 0.1, plans)
        other = budget._replace(plans=plans[::-1])
        return [(plain, budget), (plain, other), (fast, budget), (small, budget)]


class Answer(msgspec.Struct):
    """What `choose` returned: numbers of the plans in `budget.plans`, -1 for none or for a plan that is not there."""

    infeasible: str = ""
    plan: int = -1
    fallback: int = -1
    limits: dict[str, float] = {}


def cost(case: Case, found: Prediction, budget: Budget) -> tuple[float, float]:
    """Hours and dollars of the whole training."""
    hours = budget.tokens / (budget.batch * MODELS[case.model].seq_len) * found.step_s / 3600
    return hours, hours * found.layout.gpus * budget.usd_per_gpu_hour


def oracle(case: Case, cluster: Cluster, budget: Budget) -> Answer:
    """Brute force."""
    model = MODELS[case.model]
    rows = [(k, predict(model, layout, cluster)) for k, layout in enumerate(budget.plans)]
    fitting = [(k, p, *cost(case, p, budget)) for k, p in rows if _fits(p, cluster, budget)]
    in_time = [row for row in fitting if row[2] <= budget.hours]
    affordable = [row for row in in_time if row[3] <= budget.dollars]
    for reason, left in zip(REASONS, (fitting, in_time, affordable), strict=True):
        if not left:
            return Answer(infeasible=reason)
    k, best, hours, dollars = min(affordable, key=lambda row: row[3])
    spare = [row for row in fitting if row[1].layout.gpus <= budget.gpus - cluster.gpus_per_node]
    fallback = min(spare, key=lambda row: row[2])[0] if spare else -1
    return Answer("", k, fallback, _limits(best, hours, dollars, budget, model.seq_len))


def _fits(found: Prediction, cluster: Cluster, budget: Budget) -> bool:
    return found.memory.total <= (1 - budget.reserve) * cluster.gpu.memory_gib * GIB


def _limits(found: Prediction, hours: float, dollars: float, budget: Budget, seq_len: int) -> dict[str, float]:
    step = found.step_s
    return dict(zip(LIMITS, (step, hours, dollars, budget.batch * seq_len / step), strict=True))


def visible() -> list[Case]:
    """Plans that exist, each reason why none does, and hardware that asks for other splits."""
    rng = random.Random("visible")
    return _cases(rng)


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds of cases."""
    return _cases(rng)


#: (reason or "", what the best plan must use): no one plan may be right everywhere.
_KINDS = (
    ("", "ZeRO-1"),
    ("", "PP"),
    ("memory", ""),
    ("deadline", ""),
    ("dollars", ""),
    ("", "TP"),
    ("", "FSDP"),
    ("memory", ""),
    ("deadline", ""),
    ("", ""),
)


def _cases(rng: random.Random) -> list[Case]:
    return [_draw(rng, reason, kind) for reason, kind in _KINDS]


def _draw(rng: random.Random, reason: str, kind: str) -> Case:
    """Draw hardware, then limits around the best plan, until the case is of that kind and not a close call."""
    while True:
        case = Case(
            draw=cases.number(rng),
            model=rng.choice(("1b", "7b", "13b", "30b")),
            gpus=rng.choice((8, 16, 32, 64)),
            batch=rng.choice((64, 128, 256)),
            gpus_per_node=rng.choice((4, 8)),
            tflops=rng.randint(100, 1000),
            memory_gib=rng.randint(10, 200),
            intra=rng.randint(40, 400),
            inter=rng.randint(2, 60),
            billion_tokens=rng.randint(2, 50),
            hours=10**7,
            dollars=10**7,
        )
        best = oracle(case, *case.asked()[0])
        if best.infeasible:
            if reason == "memory" and _is_clear(case, reason):
                return case
            continue
        if kind not in case.asked()[0][1].plans[best.plan].kind:
            continue
        spend = {"deadline": (0.4, 3.0), "dollars": (3.0, 0.6)}.get(reason, (rng.uniform(0.8, 3), rng.uniform(1.1, 2)))
        hours, dollars = (best.limits[name] * by for name, by in zip(("hours", "dollars"), spend, strict=True))
        case = msgspec.structs.replace(case, hours=max(1, int(hours)), dollars=max(1, int(dollars)))
        if reason != "memory" and _is_clear(case, reason):
            return case


def _is_clear(case: Case, reason: str) -> bool:
    """It is of that kind, and stays so when every limit is a little tighter or wider."""
    for factor in (1 - CLEAR, 1.0, 1 + CLEAR):
        for cluster, budget in case.asked():
            wider = budget._replace(hours=budget.hours * factor, dollars=budget.dollars * factor)
            room = replace(cluster, gpu=replace(cluster.gpu, memory_gib=cluster.gpu.memory_gib * factor))
            then, now = oracle(case, room, wider), oracle(case, cluster, budget)
            if (then.infeasible, then.plan, then.fallback) != (now.infeasible, now.plan, now.fallback):
                return False
    return oracle(case, *case.asked()[0]).infeasible == reason


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


def _wrong_plan(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """A plan that breaks a limit, or costs over 5 % more than the cheapest."""
    case = seen.case
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
        broken = not _fits(found, cluster, budget) or hours > budget.hours or dollars > budget.dollars
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
    for said, (cluster, budget) in zip(seen.said[0], case.asked(), strict=True):
        if said.infeasible or said.plan < 0:
            continue
        found = predict(MODELS[case.model], budget.plans[said.plan], cluster)
        wanted = _limits(found, *cost(case, found, budget), budget, MODELS[case.model].seq_len)
        for name in LIMITS:
            what = f"{name} of {found.layout.name}"
            if fault := wrong_number(what, None, said.limits[name], wanted[name], ROUNDING):
                return fault
    return None


def _wrong_fallback(seen: Seen[Case, list[Answer]]) -> Fault | None:
    """Another plan than the fastest that fits on what is left when a node is gone."""
    for said, (cluster, budget) in zip(seen.said[0], seen.case.asked(), strict=True):
        best = oracle(seen.case, cluster, budget)
        if said.infeasible or best.infeasible or said.fallback == best.fallback:
            continue
        names = [budget.plans[k].name if k >= 0 else "None" for k in (best.fallback, said.fallback)]
        left = budget.gpus - cluster.gpus_per_node
        text = f"with {left} GPUs left the fallback is {names[0]}, you say {names[1]}."
        return Fault(text, *names)
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
        Property("consistency", "The answer changes where it must not", _inconsistent, "reported"),
        Property("limits", "The limits are not those of the plan", _wrong_limits, "reported"),
        Property("fallback", "The fallback is another plan", _wrong_fallback, "reported"),
    ),
)
