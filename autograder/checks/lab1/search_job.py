"""What lab1/full-search gets: a model, GPUs, limits, and functions that count how often they are asked."""

from __future__ import annotations

from simulator.cluster import Cluster
from simulator.planner import Layout, Transformer
from simulator.planner.constants import FITTED
from simulator.planner.memory import memory
from simulator.planner.timing import step_time


class Job:
    """`gpus` GPUs, `gpus_per_node` of them in a node, train `model` with a global batch of `batch` sequences.

    A layout must not need more than `room` bytes on a GPU, nor a step more than `deadline` seconds. `calls` counts what
    was asked of `memory` and `seconds` together.
    """

    def __init__(
        self, model: Transformer, gpus: int, batch: int, cluster: Cluster, room: float, deadline: float
    ) -> None:
        self.model, self.gpus, self.batch, self.gpus_per_node = model, gpus, batch, cluster.gpus_per_node
        self.room, self.deadline, self.calls = room, deadline, 0
        self._cluster = cluster

    def memory(self, layout: Layout) -> float:
        """Bytes on the fullest GPU (the planner's). Counts. Raises `UsageError` for a layout the model cannot have."""
        layout.check(self.model)
        self.calls += 1
        return memory(self.model, layout, FITTED).total

    def seconds(self, layout: Layout) -> float:
        """Seconds of a step (the planner's). Counts. Raises `UsageError` for a layout the model cannot have."""
        layout.check(self.model)
        self.calls += 1
        return step_time(self.model, layout, self._cluster, FITTED).total

    def bound(self, layout: Layout) -> float:
        """Seconds that computing, recomputing and the bubble take: never more than `seconds`. Does not count."""
        layout.check(self.model)
        time = step_time(self.model, layout, self._cluster, FITTED)
        return time.compute + time.recompute + time.bubble
