"""The budgets of lab1/choose: drawn hardware and limits, and brute force over a dozen plans."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.lab1.budget import Budget, dozen, make_cluster
from simulator.cluster import Cluster
from simulator.planner import MODELS, Prediction, predict

GIB = 2**30
REASONS = ("memory", "deadline", "dollars")
LIMITS = ("step_s", "hours", "dollars", "tokens_per_s")
#: No drawn limit is closer than this to what decides.
CLEAR = 0.02
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
    fitting = [(k, p, *cost(case, p, budget)) for k, p in rows if fits(p, cluster, budget)]
    in_time = [row for row in fitting if row[2] <= budget.hours]
    affordable = [row for row in in_time if row[3] <= budget.dollars]
    for reason, left in zip(REASONS, (fitting, in_time, affordable), strict=True):
        if not left:
            return Answer(infeasible=reason)
    k, best, hours, dollars = min(affordable, key=lambda row: row[3])
    spare = [row for row in fitting if row[1].layout.gpus <= budget.gpus - cluster.gpus_per_node]
    fallback = min(spare, key=lambda row: row[2])[0] if spare else -1
    return Answer("", k, fallback, limits_of(best, hours, dollars, budget, model.seq_len))


def fits(found: Prediction, cluster: Cluster, budget: Budget) -> bool:
    """Whether the reserve stays free."""
    return found.memory.total <= (1 - budget.reserve) * cluster.gpu.memory_gib * GIB


def limits_of(found: Prediction, hours: float, dollars: float, budget: Budget, seq_len: int) -> dict[str, float]:
    """What operators watch, by the names of LIMITS."""
    step = found.step_s
    return dict(zip(LIMITS, (step, hours, dollars, budget.batch * seq_len / step), strict=True))


#: (reason or "", what the best plan must use, what must matter): no one plan and no shortcut is right everywhere.
_KINDS = (
    ("", "ZeRO-1", ""),
    ("", "PP", "gibibytes"),
    ("memory", "", "reserve"),
    ("deadline", "", "order of limits"),
    ("dollars", "", ""),
    ("", "TP", ""),
    ("", "FSDP", ""),
    ("", "", "reserve"),
    ("deadline", "", ""),
    ("", "", "fallback too late"),
)
#: Times the hours and the dollars of the best plan.
_SPEND = {
    ("deadline", ""): (0.4, 3.0),
    ("deadline", "order of limits"): (0.5, 0.5),
    ("dollars", ""): (3.0, 0.6),
    ("", "fallback too late"): (0.75, 3.0),
}


def _changes(case: Case, question: tuple[Cluster, Budget]) -> Callable[[Cluster, Budget], bool]:
    answer = oracle(case, *question)
    return lambda cluster, budget: oracle(case, cluster, budget) != answer


def _matters(case: Case, what: str) -> bool:
    """Whether a solution that overlooks it would answer otherwise."""
    cluster, budget = case.asked()[0]
    best = oracle(case, cluster, budget)
    changes = _changes(case, (cluster, budget))
    if what == "reserve":
        return changes(cluster, budget._replace(reserve=0.0))
    if what == "gibibytes":
        return changes(
            replace(cluster, gpu=replace(cluster.gpu, memory_gib=cluster.gpu.memory_gib * 1e9 / GIB)), budget
        )
    if what == "fallback too late":  # a fallback that keeps the deadline is the plan itself
        if best.infeasible or best.fallback < 0:
            return False
        hours, _ = cost(case, predict(MODELS[case.model], budget.plans[best.fallback], cluster), budget)
        return hours > budget.hours * (1 + CLEAR)
    return True


#: One of each kind, as `drawn` once found them: the search takes seconds.
_VISIBLE = (
    "draw=183138,batch=128,gpus_per_node=4,tflops=380,memory_gib=147,intra=88,inter=59,billion_tokens=24,hours=298,dollars=2825",
    "draw=51775,model=13b,gpus=8,batch=128,tflops=364,memory_gib=60,intra=107,inter=22,billion_tokens=30,hours=1465,dollars=12222",
    "draw=892226,model=30b,gpus=8,gpus_per_node=4,tflops=170,memory_gib=69,intra=80,inter=53,billion_tokens=6,hours=10000000,dollars=10000000",
    "draw=956228,model=13b,batch=64,tflops=430,memory_gib=81,intra=214,inter=6,billion_tokens=29,hours=203,dollars=3249",
    "draw=415392,model=13b,gpus=32,batch=128,gpus_per_node=4,tflops=899,memory_gib=61,intra=255,inter=44,billion_tokens=35,hours=454,dollars=2910",
    "draw=280864,model=1b,gpus=64,batch=128,tflops=375,memory_gib=142,intra=165,inter=2,billion_tokens=17,hours=22,dollars=3022",
    "draw=571026,model=30b,gpus=8,batch=128,gpus_per_node=4,tflops=340,memory_gib=198,intra=256,inter=60,billion_tokens=38,hours=5530,dollars=34322",
    "draw=285316,model=13b,gpus=64,tflops=441,memory_gib=69,intra=202,inter=51,billion_tokens=16,hours=75,dollars=6763",
    "draw=220779,model=30b,gpus=32,batch=128,tflops=447,memory_gib=53,intra=92,inter=19,billion_tokens=50,hours=202,dollars=96976",
    "draw=690331,gpus=64,batch=64,gpus_per_node=4,tflops=402,memory_gib=192,intra=266,inter=22,billion_tokens=23,hours=54,dollars=13872",
)


def visible() -> list[Case]:
    """Plans that exist, each reason why none does, and hardware that asks for other splits."""
    return [cases.parse(Case, name) for name in _VISIBLE]


def problems() -> list[str]:
    """Visible cases that the planner no longer places clearly in their kind."""
    pairs = zip(visible(), _KINDS, strict=True)
    return [case.name for case, (reason, _, what) in pairs if not (_matters(case, what) and _is_clear(case, reason))]


def drawn(rng: random.Random) -> list[Case]:
    """A case of each kind."""
    return [_draw(rng, *kind) for kind in _KINDS]


def _draw(rng: random.Random, reason: str, kind: str, what: str) -> Case:
    """Draw hardware, then limits around the best plan, until the case is of that kind and not a close call."""
    while True:
        case = _hardware(rng)
        best = oracle(case, *case.asked()[0])
        if bool(best.infeasible) != (reason == "memory"):
            continue
        if not best.infeasible:
            if kind not in case.asked()[0][1].plans[best.plan].kind:
                continue
            spend = _SPEND.get((reason, what)) or (rng.uniform(0.8, 3), rng.uniform(1.1, 2))
            hours, dollars = (best.limits[name] * by for name, by in zip(("hours", "dollars"), spend, strict=True))
            case = msgspec.structs.replace(case, hours=max(1, int(hours)), dollars=max(1, int(dollars)))
        if _matters(case, what) and _is_clear(case, reason):
            return case


def _hardware(rng: random.Random) -> Case:
    return Case(
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
