"""What a layout holds and sends, to the byte: what a trace and a ledger of a real run must show.

Bytes of a collective count as nccl-tests and `Event.bytes` count them: the whole vector that it works on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.planner.compute import tokens
from simulator.planner.layout import Layout
from simulator.planner.model import Transformer

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Traffic:
    """`count` operations of `num_bytes` each that one rank takes part in during a step; `group` is "dp", "tp", "pp".

    `exact_count` is False where the library decides how many pieces carry those bytes (the buckets of DDP).
    """

    op: str
    group: str
    num_bytes: int
    count: int
    what: str
    exact_count: bool = True

    @property
    def total(self) -> int:
        return self.num_bytes * self.count


@dataclass(frozen=True)
class States:
    """Bytes of one rank between steps: parameters, their gradients, Adam's moments and the master copy."""

    parameters: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer


def parameter_units(model: Transformer) -> list[list[Shape]]:
    """Shapes by unit as FSDP2 wraps them: each layer, then the root with embedding, last norm and output matrix."""
    vector: list[Shape] = [(model.d_model,)] * (2 if model.biases else 1)
    layer = 2 * vector
    for _, inputs, outputs in model.layer_matrices:
        layer += [(outputs, inputs), *([(outputs,)] if model.biases else [])]
    root = [(model.vocab, model.d_model), *vector]
    if model.learned_positions:
        root.append((model.learned_positions, model.d_model))
    if not model.tied:
        root.append((model.vocab, model.d_model))
    return [*([layer] * model.layers), root]


def shard_rows(rows: int, shards: int, index: int) -> int:
    """Rows of dimension 0 that shard `index` holds: as torch.chunk cuts, the last ones may hold fewer or none."""
    chunk = math.ceil(rows / shards)
    return max(0, min(chunk, rows - index * chunk))


def states(model: Transformer, layout: Layout, rank: int = 0) -> States:
    """What data-parallel rank `rank` holds. ZeRO-3 cuts each parameter along dimension 0, as FSDP2 does.

    For one stage without tensor parallelism; ZeRO-1 and 2 cut the flat vector evenly. Adam's step counter, 4 bytes a
    parameter tensor, is not counted.
    """
    p, shards = layout.precision, layout.shards
    shapes = [shape for unit in parameter_units(model) for shape in unit]
    whole = sum(math.prod(shape) for shape in shapes)
    if layout.zero >= 3:
        index = rank % shards
        whole = sum(shard_rows(shape[0], shards, index) * math.prod(shape[1:]) for shape in shapes)
    flat = whole if layout.zero == 3 else math.ceil(whole / shards)
    return States(
        parameters=round(whole * p.weights),
        gradients=round((flat if layout.zero >= 2 else whole) * p.gradients),
        optimizer=round((flat if layout.zero >= 1 else whole) * (p.master + p.moments)),
    )


def padded_elements(unit: list[Shape], shards: int) -> int:
    """Elements that an all-gather of the unit returns: every parameter padded to equal shards along dimension 0."""
    return sum(shards * math.ceil(shape[0] / shards) * math.prod(shape[1:]) for shape in unit)


def traffic(model: Transformer, layout: Layout, stage: int = 0) -> list[Traffic]:
    """What one rank of pipeline stage `stage` communicates in one step, set-up not counted.

    Data parallelism: for one stage without tensor parallelism or, with them, of the parameters divided evenly.
    """
    return [*_data_traffic(model, layout), *_tensor_traffic(model, layout), *_pipeline_traffic(model, layout, stage)]


def _data_traffic(model: Transformer, layout: Layout) -> list[Traffic]:
    if layout.dp * layout.cp == 1:
        return []
    wire, shards, m = layout.precision, layout.shards, layout.accumulation
    units = parameter_units(model)
    if layout.zero == 3:
        found = []
        for index, unit in enumerate(units):
            elements = padded_elements(unit, shards)
            root = index == len(units) - 1
            name = "root" if root else f"layer {index}"
            gathers = m * (2 if layout.reshard and not root else 1)  # backward frees the weights in any case
            found.append(Traffic("all_gather", "dp", round(elements * wire.compute), gathers, f"weights of {name}"))
            found.append(Traffic("reduce_scatter", "dp", round(elements * wire.reduced), m, f"gradients of {name}"))
        return found
    elements = sum(math.prod(shape) for unit in units for shape in unit)
    share = math.ceil(elements / (layout.tp * layout.pp))
    gradients = round(share * wire.reduced)
    if layout.zero == 0:
        return [Traffic("all_reduce", "dp", gradients, 1, "gradients", exact_count=False)]
    times = m if layout.zero == 2 else 1
    return [
        Traffic("reduce_scatter", "dp", gradients, times, "gradients", exact_count=False),
        Traffic("all_gather", "dp", round(share * wire.compute), 1, "weights", exact_count=False),
    ]


def _tensor_traffic(model: Transformer, layout: Layout) -> list[Traffic]:
    """Megatron's two all-reduces a layer in each direction (Shoeybi et al. 2019, arXiv:1909.08053)."""
    if layout.tp == 1:
        return []
    num_bytes = round(tokens(model, layout) * model.d_model * layout.precision.compute)
    layers = math.ceil(model.layers / layout.pp)
    count = layers * layout.accumulation * (6 if layout.recompute == "full" else 4)
    if layout.sequence_parallel:
        halves = ("reduce_scatter", "all_gather")
        return [Traffic(op, "tp", num_bytes, count, "activations and their gradients") for op in halves]
    return [Traffic("all_reduce", "tp", num_bytes, count, "activations and their gradients")]


def _pipeline_traffic(model: Transformer, layout: Layout, stage: int) -> list[Traffic]:
    """Activations down, gradients up, once a micro-batch and chunk; the ends have one neighbour only."""
    if layout.pp == 1:
        return []
    num_bytes = round(tokens(model, layout) * model.d_model * layout.precision.compute)
    passes, ends = layout.accumulation * layout.chunks, layout.accumulation
    # forward leaves every chunk but the model's last, backward every chunk but its first; arrivals mirror that
    sent = 2 * passes - (ends if stage == layout.pp - 1 else 0) - (ends if stage == 0 else 0)
    return [Traffic(op, "pp", num_bytes, sent, "activations and their gradients") for op in ("send", "recv")]
