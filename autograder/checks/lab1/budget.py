"""What lab1/choose gets: a cluster, a budget, and a dozen plans to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from simulator.cluster import Cluster, Gpu, Link
from simulator.errors import UsageError
from simulator.planner import Layout, Transformer

#: GPUs that tensor parallelism and pipelines use in the dozen.
WIDTHS = (8, 4, 2)


class Budget(NamedTuple):
    """What a training may take: `tokens` in steps of `batch` sequences, within `hours` and `dollars`.

    `gpus` are there; a plan may use fewer and pays for what it uses. `reserve` is the share of a GPU's memory that must
    stay free. `plans` are those to choose from.
    """

    gpus: int
    batch: int
    tokens: float
    hours: float
    dollars: float
    usd_per_gpu_hour: float
    reserve: float
    plans: list[Layout]


def make_cluster(tflops: int, memory_gib: int, gpus_per_node: int, intra: float, inter: float) -> Cluster:
    """Hardware that nobody sells: GPUs of so many FP16 TFLOP/s, links of so many GB/s in a node and between nodes."""
    rates = {"bfloat16": tflops * 1e12, "float16": tflops * 1e12, "float32": tflops * 1e12 / 16}
    gpu = Gpu("made-up GPU", rates, 2000.0, float(memory_gib))
    return Cluster("made-up cluster", gpus_per_node, Link(5.0, intra), Link(15.0, inter), gpu=gpu)


def dozen(model: Transformer, gpus: int, batch: int, gpus_per_node: int) -> list[Layout]:
    """Six plans on all GPUs and six on half of them, as far as model and batch allow."""
    return [layout for number in (gpus, gpus // 2) for layout in _six(model, number, batch, gpus_per_node)]


def _six(model: Transformer, gpus: int, batch: int, gpus_per_node: int) -> Iterator[Layout]:
    split = next((n for n in WIDTHS if n <= gpus_per_node and gpus % n == 0 and model.heads % n == 0), 1)
    stages = next((n for n in WIDTHS[1:] if gpus % n == 0 and model.layers % n == 0), 1)
    wanted: tuple[tuple[int, dict[str, Any]], ...] = (
        (gpus, {}),
        (gpus, {"zero": 1}),
        (gpus, {"zero": 3}),
        (gpus, {"zero": 3, "recompute": "full"}),
        (gpus // split, {"tp": split, "zero": 1, "sequence_parallel": True, "recompute": "full"}),
        (gpus // stages, {"pp": stages, "zero": 1, "recompute": "full"}),
    )
    for dp, how in wanted:
        if dp < 1 or batch % dp:
            continue
        layout = Layout(dp, accumulation=batch // dp, **how)
        try:
            layout.check(model)
        except UsageError:
            continue
        yield layout
