"""Bytes per GPU by kind, on the fullest GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from simulator.planner.compute import tokens
from simulator.planner.constants import Constants
from simulator.planner.layout import Layout
from simulator.planner.model import Transformer

GIB = 2**30
#: What six-operator RMSNorm saves beside its input and output: an FP32 copy, normalised values in FP32 and 16 bits.
UNFUSED_NORM_SAVED = 10.0


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU. `temporary`: gathered weights, gradients of one unit, what recomputation holds for a moment."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    temporary: float
    overhead: float

    @property
    def total(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))

    @property
    def states(self) -> float:
        return self.parameters + self.gradients + self.optimizer

    def largest(self) -> str:
        """The kind that takes most."""
        return max((field.name for field in fields(self)), key=lambda name: float(getattr(self, name)))


def memory(model: Transformer, layout: Layout, constants: Constants) -> Memory:
    """Of the fuller of the first stage (most micro-batches in flight) and the last (the logits)."""
    ends = [_stage(model, layout, constants, first=True)]
    if layout.pp > 1:
        ends.append(_stage(model, layout, constants, first=False))
    return max(ends, key=lambda stage: stage.total)


def _stage(model: Transformer, layout: Layout, constants: Constants, *, first: bool) -> Memory:
    layers = math.ceil(model.layers / layout.pp)
    last = not first or layout.pp == 1
    count = layers * model.layer_parameters + (model.embedding_parameters if first else 0)
    if last:
        count += model.head_parameters + (model.vocab * model.d_model if model.tied and not first else 0)
    states = state_bytes(count / layout.tp, layout)
    held = layers * layer_saved_bytes(model, layout) * micro_batches_in_flight(layout, first=first)
    return Memory(
        *states,
        activations=constants.fragmentation * held,
        logits=constants.fragmentation * (logits_bytes(model, layout) if last else 0.0),
        temporary=constants.fragmentation * temporary_bytes(model, layout),
        overhead=constants.context_gib * GIB,
    )


def state_bytes(parameters: float, layout: Layout) -> tuple[float, float, float]:
    """Parameters, gradients, optimizer state (master copy included) of so many parameters on one GPU.

    Rajbhandari et al. 2020, arXiv:1910.02054: ZeRO-1 shards the optimizer state, 2 the gradients too, 3 all.
    """
    p, shards = layout.precision, layout.shards
    return (
        parameters * p.weights / (shards if layout.zero >= 3 else 1),
        parameters * p.gradients / (shards if layout.zero >= 2 else 1),
        parameters * (p.master + p.moments) / (shards if layout.zero >= 1 else 1),
    )


def micro_batches_in_flight(layout: Layout, *, first: bool = True) -> float:
    """Micro-batches whose activations a stage holds at once: GPipe all, 1F1B as many as stages follow it.

    Interleaved: a factor 1 + (p - 1) / (p * chunks) more (Korthikanti et al. 2022).
    """
    p = layout.pp
    if layout.schedule == "gpipe":
        return layout.accumulation if p > 1 else 1
    waiting = min(p, layout.accumulation) if first else 1
    return waiting * (1 + (p - 1) / (p * layout.chunks)) if layout.chunks > 1 else waiting


def layer_saved_bytes(model: Transformer, layout: Layout) -> float:
    """What one layer keeps of one micro-batch until its backward, on one tensor-parallel rank.

    The counts of the helpers are bytes in 16 bits.
    """
    d = model.d_model
    split = layout.tp if layout.sequence_parallel else 1
    rows = tokens(model, layout) * layout.precision.compute / 2
    if layout.recompute == "full":
        return rows * 2.0 * d / split
    if layout.recompute == "operators":
        return rows * (2.0 * d / split + (2.0 * d + _matrix_outputs(model)) / layout.tp)
    return rows * (_whole_width_bytes(model) / split + _split_width_bytes(model, layout.recompute) / layout.tp)


def _matrix_outputs(model: Transformer) -> float:
    """Bytes of every second matrix product's result."""
    return sum(outputs for *_, outputs in model.layer_matrices)


def _whole_width_bytes(model: Transformer) -> float:
    """Per token, what tensor parallelism alone does not split: inputs of norms and of the first matrices, masks."""
    norms = 0.0 if model.fused_norms else 2 * UNFUSED_NORM_SAVED
    return model.d_model * (8.0 + norms + (2.0 if model.dropout else 0.0))


def _split_width_bytes(model: Transformer, recompute: str) -> float:
    """Per token: queries, keys, values, attention, its output, the feed-forward's inside (Korthikanti et al. 2022)."""
    wide = (8.0 if model.gated else 4.0) * model.d_ffn
    attention = 2.0 * (model.d_model + 2 * model.kv_width) + 2.0 * model.d_model
    if model.fused_attention:
        return wide + attention + 4.0 * model.heads
    scores = (5.0 if model.dropout else 4.0) * model.heads * model.seq_len
    return wide + attention + (0.0 if recompute == "selective" else scores)


def logits_bytes(model: Transformer, layout: Layout) -> float:
    """Where cross-entropy's backward begins: logits, their FP32 logarithms, the logits' gradient; and the last norm."""
    width = layout.precision.compute
    last_norm = 2 * width * model.d_model / (layout.tp if layout.sequence_parallel else 1)
    return tokens(model, layout) * (model.vocab / layout.tp * (2 * width + 4) + last_norm)


def temporary_bytes(model: Transformer, layout: Layout) -> float:
    """What comes and goes: two gathered units and one unit's gradients under FSDP, one layer under recomputation."""
    layer = model.layer_parameters / layout.tp
    embedding = model.vocab * model.d_model / layout.tp
    gathered = 0.0
    if layout.zero >= 3:
        unit = max(layer, embedding / 2)
        everything = (model.layers / layout.pp * layer + embedding) * layout.precision.compute
        two = 2 * unit * layout.precision.compute
        gathered = (two if layout.reshard else everything) + unit * layout.precision.gradients
    again = 0.0
    if layout.recompute in ("full", "operators"):
        plain = _whole_width_bytes(model) / (layout.tp if layout.sequence_parallel else 1)
        again = (
            tokens(model, layout)
            * layout.precision.compute
            / 2
            * (plain + _split_width_bytes(model, "none") / layout.tp)
        )
    return gathered + again
