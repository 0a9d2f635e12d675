"""`simulator.plan`: the question, the answer, and the answer as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from simulator.cluster import Cluster, get_cluster
from simulator.errors import UsageError
from simulator.planner import explain
from simulator.planner.goodput import Reliability, usd_per_million_tokens
from simulator.planner.layout import PRECISIONS, Precision
from simulator.planner.memory import GIB
from simulator.planner.model import Transformer, get_model
from simulator.planner.predict import Prediction
from simulator.planner.search import Plans, search

#: Azure's price of an A100-80GB, as DeepSpeed-Chat's table implies ($132 for 4.1 hours on 8): 2023.
USD_PER_GPU_HOUR = 4.02
#: On the published runs of data/validation.csv: the mean error of sources left out of the fit, and the worst error.
MEAN_ERROR, WORST_ERROR = 0.07, 0.13


@dataclass(frozen=True)
class Planning:
    """The answer: `plans` fastest first, one of each kind; or `infeasible`, a sentence, and the changes that help."""

    found: Plans
    precision: Precision
    usd_per_gpu_hour: float
    reliability: Reliability

    @property
    def best(self) -> Prediction | None:
        return self.found.best

    @property
    def plans(self) -> tuple[Prediction, ...]:
        return tuple(self.found.by_kind.values())

    @property
    def infeasible(self) -> str:
        """The binding constraint, or "" where a plan exists."""
        return "" if self.best else explain.binding_constraint(self.found)

    @property
    def helps(self) -> list[str]:
        return [] if self.best else explain.smallest_changes(self.found, self.precision)

    @property
    def notes(self) -> list[str]:
        return explain.notes(self.found)

    @property
    def rejected(self) -> dict[str, str]:
        """The kinds of which no layout fits, with the reason."""
        limit = self.found.cluster.gpu.memory_gib
        return {
            kind: explain.why_it_does_not_fit(layout, needed, limit)
            for kind, (layout, needed) in sorted(self.found.too_large.items())
            if kind not in self.found.by_kind
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `lockstep plan --json` prints it."""
        return {
            "basis": "predicted",
            "error_band": {"mean": MEAN_ERROR, "worst": WORST_ERROR},
            "model": {**asdict(self.found.model), "parameters": self.found.model.parameters},
            "cluster": self.found.cluster.name,
            "gpus": self.found.gpus,
            "global_batch": self.found.batch,
            "precision": self.precision.name,
            "layouts_examined": self.found.examined,
            "plans": [self.plan_as_dict(plan) for plan in self.plans],
            "rejected": self.rejected,
            "infeasible": self.infeasible or None,
            "helps": self.helps,
            "notes": self.notes,
        }

    def plan_as_dict(self, plan: Prediction) -> dict[str, Any]:
        best = self.best
        return {
            "name": plan.layout.name,
            "kind": plan.layout.kind,
            "layout": asdict(plan.layout),
            "step_s": plan.step_s,
            "tokens_per_s_per_gpu": plan.tokens_per_s_per_gpu,
            "mfu": plan.mfu,
            "hfu": plan.hfu,
            "usd_per_million_tokens": self.usd_per_million_tokens(plan),
            "goodput": self.goodput(plan),
            "memory_gib": {**{k: v / GIB for k, v in asdict(plan.memory).items()}, "total": plan.memory.total / GIB},
            "time_s": asdict(plan.time),
            "why": "" if best is None or plan is best else explain.why_it_loses(plan, best),
        }

    def usd_per_million_tokens(self, plan: Prediction) -> float:
        """Failures not counted: divide by `goodput` to pay for them too."""
        return usd_per_million_tokens(plan.tokens_per_s_per_gpu, self.usd_per_gpu_hour)

    def goodput(self, plan: Prediction) -> float:
        return self.reliability.goodput(plan.layout.gpus)


def plan(
    model: str | Transformer = "7b",
    gpus: int = 8,
    batch: int = 32,
    cluster: str | Cluster = "a100-80gb",
    *,
    seq_len: int | None = None,
    precision: str | Precision = "16",
    usd_per_gpu_hour: float = USD_PER_GPU_HOUR,
    reliability: Reliability | None = None,
) -> Planning:
    """Every layout of `model` on so many GPUs with a global batch of `batch` sequences, ranked by predicted step time.

    Raises `UsageError` for unknown names and numbers below 1. No plan is an answer, not an error: see
    `Planning.infeasible`.
    """
    if isinstance(precision, str):
        if precision not in PRECISIONS:
            raise UsageError(f"unknown precision {precision!r}: use one of {', '.join(PRECISIONS)}")
        precision = PRECISIONS[precision]
    found = search(get_model(model, seq_len), gpus, batch, get_cluster(cluster), precision=precision)
    return Planning(found, precision, usd_per_gpu_hour, reliability or Reliability())
