"""One layout: memory, time, throughput and utilization."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cluster import Cluster
from simulator.planner.constants import FITTED, Constants
from simulator.planner.layout import Layout
from simulator.planner.memory import GIB, Memory, memory
from simulator.planner.model import Transformer
from simulator.planner.timing import StepTime, step_time


@dataclass(frozen=True)
class Prediction:
    """Memory of the fullest GPU and time of one step. Predicted, never measured."""

    model: Transformer
    layout: Layout
    cluster: Cluster
    memory: Memory
    time: StepTime

    @property
    def fits(self) -> bool:
        return self.memory.total <= self.cluster.gpu.memory_gib * GIB

    @property
    def step_s(self) -> float:
        return self.time.total

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.layout.global_batch * self.model.seq_len / self.step_s / self.layout.gpus

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: FLOPs that the model needs, recomputation not counted, over the data sheet's peak.

        Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
        """
        return self.tokens_per_s_per_gpu * self.model.model_flops_per_token() / self.cluster.gpu.peak_flops["bfloat16"]

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilization: FLOPs that run, recomputation counted, over the data sheet's peak."""
        executed = self.model.model_flops_per_token() + recomputed_flops_per_token(self.model, self.layout)
        return self.tokens_per_s_per_gpu * executed / self.cluster.gpu.peak_flops["bfloat16"]


def recomputed_flops_per_token(model: Transformer, layout: Layout) -> float:
    """Counted as `model_flops_per_token` counts: matrices and the whole square of attention scores."""
    matrices = 2.0 * model.layers * sum(inputs * outputs for _, inputs, outputs in model.layer_matrices)
    attention = 4.0 * model.layers * model.d_model * model.seq_len
    if layout.recompute == "full":
        return matrices + attention
    if layout.recompute == "operators":
        return matrices / 2
    return attention if layout.recompute == "selective" and not model.fused_attention else 0.0


def predict(model: Transformer, layout: Layout, cluster: Cluster, constants: Constants = FITTED) -> Prediction:
    """Memory and time of a layout. Raises `UsageError` where the layout cannot be built for this model."""
    layout.check(model)
    return Prediction(
        model, layout, cluster, memory(model, layout, constants), step_time(model, layout, cluster, constants)
    )
