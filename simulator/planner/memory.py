"""Bytes per GPU by kind, on the fullest GPU, at the fullest moment."""

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
    """Bytes on one GPU at its peak. `temporary`: gathered weights, whole gradients of a unit, what is recomputed."""

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
    """At the fullest moment of the fuller of the first stage (micro-batches in flight) and the last (logits)."""
    stages = [True, False] if layout.pp > 1 else [True]
    moments = [moment for first in stages for moment in _moments(model, layout, constants, first=first)]
    return max(moments, key=lambda moment: moment.total)


def _moments(model: Transformer, layout: Layout, constants: Constants, *, first: bool) -> list[Memory]:
    """When the loss's backward begins; in the backward of the second last layer; when the optimizer steps.

    Gradients are there all the time where a buffer holds them: between micro-batches, and under DDP and ZeRO-1, whose
    buckets stay. Otherwise they appear as activations go.
    """
    layers = math.ceil(model.layers / layout.pp)
    last = not first or layout.pp == 1
    parameters, gradients, optimizer = state_bytes(_stage_parameters(model, layout, first=first, last=last), layout)
    one_layer = layer_saved_bytes(model, layout)
    held = layers * one_layer * micro_batches_in_flight(layout, first=first)
    stay = layout.zero < 2 or layout.accumulation > 1
    finished = gradients if stay else state_bytes(model.layer_parameters / layout.tp, layout)[1]
    everything, root, layer = _gathered_bytes(model, layout)
    at_loss = (held, logits_bytes(model, layout) if last else 0.0, root if layout.reshard else everything)
    in_backward = (
        held - one_layer,
        0.0,
        (root + 2 * layer if layout.reshard else everything)
        + _unsharded_gradients(model, layout)
        + _again(model, layout),
    )
    kinds = ((gradients if stay else 0.0, at_loss), (finished, in_backward), (gradients, (0.0, 0.0, 0.0)))
    factor, overhead = constants.fragmentation, constants.context_gib * GIB
    return [
        Memory(parameters, present, optimizer, factor * saved, factor * logits, factor * temporary, overhead)
        for present, (saved, logits, temporary) in kinds
    ]


def _stage_parameters(model: Transformer, layout: Layout, *, first: bool, last: bool) -> float:
    """On one tensor-parallel rank. A tied matrix lies on both ends of a pipeline."""
    count = math.ceil(model.layers / layout.pp) * model.layer_parameters
    if first:
        count += model.embedding_parameters
    if last:
        count += model.head_parameters + (model.vocab * model.d_model if model.tied and not first else 0)
    return count / layout.tp


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


def _gathered_bytes(model: Transformer, layout: Layout) -> tuple[float, float, float]:
    """FSDP's gathered weights: of everything, of the root (embedding and output matrix), of one layer."""
    if layout.zero < 3:
        return 0.0, 0.0, 0.0
    width = layout.precision.compute / layout.tp
    root = (model.embedding_parameters + model.head_parameters) * width
    layer = model.layer_parameters * width
    return root + math.ceil(model.layers / layout.pp) * layer, root, layer


def _unsharded_gradients(model: Transformer, layout: Layout) -> float:
    """FSDP in backward: of one layer as computed, of the layer before on the wire, and of the output matrix, whose unit
    is complete at the end only.
    """
    if layout.zero < 3:
        return 0.0
    p = layout.precision
    layer = model.layer_parameters * (p.compute + p.reduced)
    return (layer + model.vocab * model.d_model * p.compute) / layout.tp


def _again(model: Transformer, layout: Layout) -> float:
    """What one layer saves when it is computed again."""
    if layout.recompute not in ("full", "operators"):
        return 0.0
    plain = _whole_width_bytes(model) / (layout.tp if layout.sequence_parallel else 1)
    saved = plain + _split_width_bytes(model, "none") / layout.tp
    return tokens(model, layout) * layout.precision.compute / 2 * saved
