"""Seconds of computing one micro-batch of one layer, and of the logits, on one GPU."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cluster import Gpu
from simulator.planner.constants import Constants
from simulator.planner.layout import Layout, Precision
from simulator.planner.model import Transformer

#: Backward of fused attention computes the scores again: five matrix products to forward's two.
FUSED_ATTENTION_BACKWARD = 2.5
#: RMSNorm as six operators: cast (2 + 4), square (4 + 4), mean (4), scale (4 + 4), cast (4 + 2), weight (2 + 2).
UNFUSED_NORM_BYTES = 36.0


@dataclass(frozen=True)
class Work:
    """Seconds of a forward pass, by what limits them. Backward takes twice that, fused attention more."""

    matrices: float
    attention: float
    elementwise: float
    fused_attention: bool

    @property
    def forward(self) -> float:
        return self.matrices + self.attention + self.elementwise

    @property
    def backward(self) -> float:
        attention = FUSED_ATTENTION_BACKWARD if self.fused_attention else 2.0
        return 2.0 * (self.matrices + self.elementwise) + attention * self.attention


def matrix_seconds(
    rows: float, inputs: float, outputs: float, gpu: Gpu, constants: Constants, precision: Precision
) -> float:
    """A product of (rows, inputs) and (inputs, outputs)."""
    flops = 2.0 * rows * inputs * outputs / (best_flops(gpu, precision) * constants.gemm_efficiency)
    moved = precision.compute * (rows * inputs + inputs * outputs + rows * outputs)
    return flops + constants.gemm_traffic * moved / (gpu.memory_bandwidth_gbytes_per_s * 1e9)


def best_flops(gpu: Gpu, precision: Precision) -> float:
    """FLOP/s of the best matrix product in the precision that is computed in."""
    return gpu.peak_flops["bfloat16" if precision.compute <= 2 else "float32"] * gpu.achievable_compute_fraction


def tokens(model: Transformer, layout: Layout) -> float:
    """Tokens of one micro-batch on one GPU."""
    return layout.micro_batch * model.seq_len / layout.cp


def layer_work(model: Transformer, layout: Layout, gpu: Gpu, constants: Constants) -> Work:
    """One layer on one tensor-parallel rank."""
    rows, tp = tokens(model, layout), layout.tp
    matrices = sum(
        matrix_seconds(rows, inputs / tp, outputs, gpu, constants, layout.precision)
        if name in ("out", "down")
        else matrix_seconds(rows, inputs, outputs / tp, gpu, constants, layout.precision)
        for name, inputs, outputs in model.layer_matrices
    )
    bandwidth = gpu.memory_bandwidth_gbytes_per_s * 1e9 * constants.elementwise_bandwidth
    return Work(
        matrices,
        rows * _attention_seconds_per_token(model, layout, gpu, constants, bandwidth),
        rows * elementwise_bytes_per_token(model, layout) / bandwidth
        + operators(model) * gpu.launch_overhead_us * 1e-6,
        model.fused_attention,
    )


def _attention_seconds_per_token(
    model: Transformer, layout: Layout, gpu: Gpu, constants: Constants, bandwidth: float
) -> float:
    peak = best_flops(gpu, layout.precision)
    flops = 4.0 * model.seq_len * model.d_model / layout.tp
    if model.fused_attention:  # half of the score matrix lies above the causal diagonal
        return flops / 2 / (peak * constants.attention_efficiency)
    return flops / (peak * constants.gemm_efficiency) + score_bytes_per_token(model, layout) / bandwidth


def score_bytes_per_token(model: Transformer, layout: Layout) -> float:
    """Unfused: the scores are written, read and written by the masked softmax (and dropout), read by the product."""
    passes = 6 if model.dropout else 4
    return layout.precision.compute * passes * model.heads / layout.tp * model.seq_len


def elementwise_bytes_per_token(model: Transformer, layout: Layout) -> float:
    """Memory traffic of forward outside matrices and attention: two norms, two residuals, activation, rotation.

    The counts below are bytes in 16 bits.
    """
    split = layout.tp if layout.sequence_parallel else 1
    norm = 4.0 if model.fused_norms else UNFUSED_NORM_BYTES
    dropout = 5.0 if model.dropout else 0.0
    wide = 10.0 if model.gated else 4.0
    rotation = 0.0 if model.learned_positions else 8.0 * (model.d_model + model.kv_width)
    residual = 2 * (norm + 6.0 + dropout) * model.d_model / split
    return (residual + (wide * model.d_ffn + rotation) / layout.tp) * layout.precision.compute / 2


def operators(model: Transformer) -> int:
    """Kernels that one layer launches forward: matrices, attention, norms, residuals, activation, rotation."""
    attention = 1 if model.fused_attention else 5
    norms = 2 if model.fused_norms else 12
    return len(model.layer_matrices) + attention + norms + 2 + (2 if model.gated else 1) + (4 if model.biases else 8)


def logits_work(model: Transformer, layout: Layout, gpu: Gpu, constants: Constants) -> Work:
    """The output matrix and the cross-entropy in FP32, vocabulary split over the tensor-parallel group."""
    rows, outputs = tokens(model, layout), model.vocab / layout.tp
    bandwidth = gpu.memory_bandwidth_gbytes_per_s * 1e9 * constants.elementwise_bandwidth
    loss = rows * outputs * (layout.precision.compute + 4 + 4 + 4) / bandwidth
    return Work(matrix_seconds(rows, model.d_model, outputs, gpu, constants, layout.precision), 0.0, loss, False)


def recomputed_seconds(model: Transformer, layout: Layout, work: Work) -> float:
    """What one layer computes a second time."""
    if layout.recompute == "full":
        return work.forward
    if layout.recompute == "selective":  # the attention core (Korthikanti et al. 2022)
        return 0.0 if model.fused_attention else work.attention
    if layout.recompute == "operators":  # every second matrix product and what is cheap, torchtitan's "op" policy
        return work.matrices / 2 + work.elementwise
    return 0.0
