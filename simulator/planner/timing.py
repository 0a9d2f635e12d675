"""Seconds of one optimizer step, by part."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from simulator.cluster import Cluster
from simulator.planner.compute import Work, layer_work, logits_work, recomputed_seconds, tokens
from simulator.planner.constants import Constants
from simulator.planner.groups import Groups
from simulator.planner.layout import Layout
from simulator.planner.model import Transformer


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step on the slowest GPU: what it waits for is exposed, what is hidden costs nothing here."""

    compute: float
    recompute: float
    exposed_tensor: float
    exposed_context: float
    exposed_pipeline: float
    exposed_data: float
    bubble: float
    optimizer: float
    synchronisation: float

    @property
    def total(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))


def step_time(model: Transformer, layout: Layout, cluster: Cluster, constants: Constants) -> StepTime:
    """The longest stage decides: it runs `accumulation` micro-batches, and the pipeline fills and drains once."""
    gpu, groups = cluster.gpu, Groups.of(layout, cluster.gpus_per_node)
    work, logits = layer_work(model, layout, gpu, constants), logits_work(model, layout, gpu, constants)
    layers = math.ceil(model.layers / layout.pp)
    again = recomputed_seconds(model, layout, work)
    tensor = _tensor_seconds(model, layout, cluster, groups)
    context = _context_seconds(model, layout, cluster, groups, work)
    message = _message_seconds(model, layout, cluster, groups)
    compute = layers * (work.forward + work.backward)
    last = logits.forward + logits.backward
    m = layout.accumulation
    per_micro_batch = compute + layers * (again + tensor + context)
    bubble = (layout.pp - 1) / layout.chunks * per_micro_batch
    window = compute + layers * again + last
    parts = StepTime(
        compute=m * (compute + last),
        recompute=m * layers * again,
        exposed_tensor=m * layers * tensor,
        exposed_context=m * layers * context,
        exposed_pipeline=(m * layout.chunks + layout.pp - 1) * message,
        exposed_data=_exposed_data_seconds(model, layout, cluster, groups, window, constants),
        bubble=bubble,
        optimizer=_optimizer_seconds(model, layout, cluster, constants),
        synchronisation=0.0,
    )
    lost = constants.synchronisation * math.log2(layout.gpus) if layout.gpus > 1 else 0.0
    return StepTime(**{**parts.__dict__, "synchronisation": lost * parts.total})


def _tensor_seconds(model: Transformer, layout: Layout, cluster: Cluster, groups: Groups) -> float:
    """Per layer and micro-batch: two all-reduces forward, two backward, two more where forward runs again.

    With sequence parallelism each is a reduce-scatter and an all-gather, of the same bytes (Korthikanti et al. 2022,
    arXiv:2205.05198). Nothing hides them.
    """
    if layout.tp == 1:
        return 0.0
    num_bytes = layout.precision.compute * tokens(model, layout) * model.d_model
    count = 6 if layout.recompute == "full" else 4
    if layout.sequence_parallel:
        halves = ("reduce_scatter", "all_gather")
        return count * sum(groups.tensor.seconds(cluster, op, num_bytes) for op in halves)
    return count * groups.tensor.seconds(cluster, "all_reduce", num_bytes)


def _context_seconds(model: Transformer, layout: Layout, cluster: Cluster, groups: Groups, work: Work) -> float:
    """Ring attention: keys and values go round once forward and twice backward, behind the attention of the piece
    before (Liu et al. 2023, arXiv:2310.01889). What is longer than the attention is exposed.
    """
    if layout.cp == 1:
        return 0.0
    piece = 2.0 * layout.precision.compute * tokens(model, layout) * model.kv_width / layout.tp
    link = cluster.intra if groups.context.shape.nodes == 1 else cluster.inter
    rounds = (layout.cp - 1) * link.seconds(1, piece)
    return max(0.0, rounds - work.attention) + max(0.0, 2 * rounds - 2.5 * work.attention)


def _message_seconds(model: Transformer, layout: Layout, cluster: Cluster, groups: Groups) -> float:
    """Activations to the next stage and their gradients back, once a micro-batch; each tensor-parallel rank sends its
    share (Narayanan et al. 2021).
    """
    if layout.pp == 1:
        return 0.0
    num_bytes = layout.precision.compute * tokens(model, layout) * model.d_model / layout.tp
    link = cluster.intra if groups.stages_share_a_node else cluster.inter
    return 2 * link.seconds(1, num_bytes)


def stage_parameters(model: Transformer, layout: Layout) -> float:
    """Parameters on one GPU of the fullest stage before ZeRO: layers, and the embedding or the output matrix."""
    layers = math.ceil(model.layers / layout.pp) * model.layer_parameters
    ends = model.embedding_parameters + model.head_parameters
    if layout.pp > 1:
        ends = max(model.embedding_parameters, model.vocab * model.d_model)
    return (layers + ends) / layout.tp


def _exposed_data_seconds(
    model: Transformer, layout: Layout, cluster: Cluster, groups: Groups, window: float, constants: Constants
) -> float:
    """Gradients (and with ZeRO weights) between data-parallel ranks, less what computing hides.

    DDP and ZeRO-1 communicate once a step, behind the last micro-batch's backward; ZeRO-2 and 3 with every one.
    """
    if layout.dp * layout.cp == 1:
        return 0.0
    size, wire = stage_parameters(model, layout), layout.precision
    gradients, weights = size * wire.reduced, size * wire.compute
    data, shard = groups.data, groups.shard
    scattered = shard.seconds(cluster, "reduce_scatter", gradients)
    gathered = shard.seconds(cluster, "all_gather", weights)
    between = groups.replicas.seconds(cluster, "all_reduce", gradients / layout.shards)
    hidden = constants.overlap * window if layout.overlap else 0.0
    if layout.zero == 0:
        once = data.seconds(cluster, "all_reduce", gradients)
        return max(0.0, once - hidden * 2 / 3)
    if layout.zero == 1:
        return max(0.0, scattered + between - hidden * 2 / 3) + gathered
    m = layout.accumulation
    if layout.zero == 2:
        return m * max(0.0, scattered - hidden * 2 / 3) + between + gathered
    gathers = 2 if layout.reshard else 1  # backward frees the weights in any case
    # nothing hides the first unit's gather and the last unit's reduction
    ends = (gathered + scattered) / (math.ceil(model.layers / layout.pp) + 1)
    return m * max(ends, gathers * gathered + scattered - hidden) + between


def _optimizer_seconds(model: Transformer, layout: Layout, cluster: Cluster, constants: Constants) -> float:
    """Adam reads gradients, master copy and moments, writes the last two and the weights: memory-bound."""
    p = layout.precision
    num_bytes = p.gradients + 2 * (p.master + p.moments) + p.weights
    parameters = stage_parameters(model, layout) / (layout.shards if layout.zero else 1)
    bandwidth = cluster.gpu.memory_bandwidth_gbytes_per_s * 1e9 * constants.elementwise_bandwidth
    return parameters * num_bytes / bandwidth
