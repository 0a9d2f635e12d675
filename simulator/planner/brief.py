"""The three rows that the brief asks for, as predicted, beside the nearest published measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.cluster import Cluster, get_cluster
from simulator.planner.constants import FITTED
from simulator.planner.layout import PRECISIONS, Layout
from simulator.planner.memory import GIB, Memory, memory
from simulator.planner.model import get_model
from simulator.planner.planning import Planning, plan
from simulator.planner.predict import predict
from simulator.planner.runs import DATA, Run, read_runs

#: (model, GPUs, global batch): the benchmark rows of the brief.
ROWS = (("7b", 8, 32), ("13b", 16, 16), ("70b", 128, 64))
SEQ_LEN = 2048


@dataclass(frozen=True)
class BriefRow:
    """A planned row, and the published run that is nearest to it, with what the planner says about that run."""

    planning: Planning
    nearest: Run
    measured_tokens_per_s_per_gpu: float
    predicted_tokens_per_s_per_gpu: float


def brief(cluster: str | Cluster = "a100-80gb") -> list[BriefRow]:
    """Predicted rows at sequences of 2048 tokens. Nothing in them is a measurement of this project."""
    return [_row(plan(model, gpus, batch, cluster, seq_len=SEQ_LEN)) for model, gpus, batch in ROWS]


def _row(planning: Planning) -> BriefRow:
    found = planning.found

    def distance(run: Run) -> float:
        return (
            abs(math.log(run.model.parameters / found.model.parameters)) * 4
            + abs(math.log(run.layout.gpus / found.gpus)) * 2
            + abs(math.log(run.model.seq_len / found.model.seq_len))
            + abs(math.log(run.layout.global_batch / found.batch)) / 2
        )

    nearest = min(read_runs(DATA / "validation.csv"), key=distance)
    assert nearest.step_time_s is not None
    tokens = nearest.layout.global_batch * nearest.model.seq_len / nearest.layout.gpus
    predicted = predict(nearest.model, nearest.layout, nearest.cluster).tokens_per_s_per_gpu
    return BriefRow(planning, nearest, tokens / nearest.step_time_s, predicted)


def grey_zone(cluster: str | Cluster = "a100-80gb") -> list[tuple[str, str, Memory, bool]]:
    """(model, convention, memory, fits): plain DDP with one sequence a GPU and full recomputation."""
    machine = get_cluster(cluster)
    found = []
    for name in ("7b", "13b"):
        model = get_model(name, SEQ_LEN)
        for precision in ("8", "10", "16", "18", "20"):
            layout = Layout(dp=8, recompute="full", precision=PRECISIONS[precision])
            needed = memory(model, layout, FITTED)
            found.append((name, precision, needed, needed.total <= machine.gpu.memory_gib * GIB))
    return found
