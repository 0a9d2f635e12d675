"""Why a plan loses, why there is none, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from simulator.planner.layout import PRECISIONS, Layout, Precision
from simulator.planner.memory import GIB, Memory
from simulator.planner.predict import Prediction
from simulator.planner.search import Plans, search
from simulator.planner.timing import StepTime

PARTS = {
    "compute": "computing",
    "recompute": "recomputation",
    "exposed_tensor": "exposed tensor-parallel communication",
    "exposed_context": "exposed context-parallel communication",
    "exposed_pipeline": "messages between pipeline stages",
    "exposed_data": "exposed data-parallel communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer step",
    "synchronisation": "waiting for stragglers",
}
#: Less is no reason to prefer one plan: the planner's own error is larger.
SAME = 0.01


def why_it_loses(plan: Prediction, best: Prediction) -> str:
    """The part of the step that costs most more than in the best plan."""
    slower = plan.step_s / best.step_s - 1
    if slower < SAME:
        return "as fast within 1 %"
    more = {field.name: getattr(plan.time, field.name) - getattr(best.time, field.name) for field in fields(StepTime)}
    part = max(more, key=lambda name: more[name])
    return f"{100 * slower:.0f} % slower: {PARTS[part]} takes {more[part]:.2g} s more"


def why_it_does_not_fit(layout: Layout, needed: Memory, limit_gib: float) -> str:
    """The memory it needs, and the kind that takes most of it."""
    kind = needed.largest()
    return (
        f"needs {needed.total / GIB:.0f} of {limit_gib:.0f} GiB, {getattr(needed, kind) / GIB:.0f} of it {kind} "
        f"({layout.name})"
    )


def notes(plans: Plans) -> list[str]:
    """What the numbers alone rule out."""
    if plans.batch >= plans.gpus:
        return []
    share = plans.batch / plans.gpus
    return [
        f"{plans.batch} sequences on {plans.gpus} GPUs are {share:g} of a sequence for each: pure data parallelism "
        f"(DDP, ZeRO, FSDP alone) cannot use them all, so at least {plans.gpus // plans.batch or 1} GPUs must share one"
    ]


def binding_constraint(plans: Plans) -> str:
    """Why no layout is possible."""
    if not plans.examined:
        return (
            f"divisibility: no product of data, tensor and pipeline degrees uses {plans.gpus} GPUs, reaches "
            f"{plans.batch} sequences exactly and divides {plans.model.heads} heads and {plans.model.layers} layers"
        )
    layout, needed = min(plans.too_large.values(), key=lambda pair: pair[1].total)
    return f"memory: the smallest layout {why_it_does_not_fit(layout, needed, plans.cluster.gpu.memory_gib)}"


def smallest_changes(plans: Plans, precision: Precision = PRECISIONS["16"]) -> list[str]:
    """For each thing that can be changed alone, the smallest change after which a layout fits."""
    return [found for changes in _alternatives(plans, precision) if (found := next(changes, None))]


def _alternatives(plans: Plans, precision: Precision) -> tuple[Iterator[str], ...]:
    model, gpus, batch, cluster = plans.model, plans.gpus, plans.batch, plans.cluster

    def fits(**changed: object) -> bool:
        arguments = {
            "model": model,
            "gpus": gpus,
            "batch": batch,
            "cluster": cluster,
            "precision": precision,
            **changed,
        }
        return search(**arguments).best is not None  # type: ignore[arg-type]

    more_gpus = (k * gpus for k in (2, 4, 8, 16, 32))
    batches = (k * gpus for k in (1, 2, 4) if k * gpus != batch)
    shorter = (model.seq_len // k for k in (2, 4, 8))
    lighter = (p for p in (PRECISIONS["10"], PRECISIONS["8"]) if p.bytes_per_parameter < precision.bytes_per_parameter)
    sizes = (gib for gib in (80, 96, 141, 192, 288) if gib > cluster.gpu.memory_gib + 1)
    return (
        (f"{n} GPUs" for n in more_gpus if fits(gpus=n)),
        (f"a global batch of {n}" for n in batches if not plans.examined and fits(batch=n)),
        (f"sequences of {n} tokens" for n in shorter if fits(model=replace(model, seq_len=n))),
        (f"GPUs of {n} GB" for n in sizes if fits(cluster=_with_memory(plans, n))),
        (f"{p.bytes_per_parameter:g} bytes a parameter (precision {p.name})" for p in lighter if fits(precision=p)),
    )


def _with_memory(plans: Plans, gib: float) -> object:
    return replace(plans.cluster, gpu=replace(plans.cluster.gpu, memory_gib=gib))
