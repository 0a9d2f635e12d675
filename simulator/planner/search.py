"""Every layout of a model on so many GPUs, ranked; or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from simulator.cluster import Cluster
from simulator.errors import UsageError
from simulator.planner.constants import FITTED, Constants
from simulator.planner.layout import PRECISIONS, Layout, Precision
from simulator.planner.memory import GIB, Memory, memory
from simulator.planner.model import Transformer
from simulator.planner.predict import Prediction
from simulator.planner.timing import step_time

#: From here on, splitting the sequence is worth a look.
LONG_SEQUENCE = 8192


def divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


def powers_of_two(limit: int) -> list[int]:
    return [1 << k for k in range(max(1, limit).bit_length()) if 1 << k <= limit]


def layouts(model: Transformer, gpus: int, batch: int, gpus_per_node: int, precision: Precision) -> Iterator[Layout]:
    """Every layout that uses all GPUs and reaches the global batch of `batch` sequences exactly.

    Tensor parallelism stays inside a node and divides the heads; pipelines divide the layers.
    """
    for tp, pp, cp in _degrees(model, gpus, gpus_per_node):
        dp = gpus // (tp * pp * cp)
        if batch % dp:
            continue
        for micro_batch in powers_of_two(batch // dp):
            if (batch // dp) % micro_batch:
                continue
            base = Layout(
                dp,
                tp,
                pp,
                cp,
                micro_batch=micro_batch,
                accumulation=batch // dp // micro_batch,
                sequence_parallel=tp > 1,
                precision=precision,
            )
            yield from _variants(model, base, gpus_per_node)


def _degrees(model: Transformer, gpus: int, gpus_per_node: int) -> Iterator[tuple[int, int, int]]:
    contexts = powers_of_two(8) if model.seq_len >= LONG_SEQUENCE else [1]
    for tp in powers_of_two(min(gpus, gpus_per_node)):
        if gpus % tp or model.heads % tp or model.d_ffn % tp:
            continue
        for pp in divisors(gpus // tp):
            if model.layers % pp:
                continue
            for cp in contexts:
                if (gpus // tp // pp) % cp == 0 and model.seq_len % cp == 0:
                    yield tp, pp, cp


def _variants(model: Transformer, base: Layout, gpus_per_node: int) -> Iterator[Layout]:
    """Sharding, schedule, recomputation and sequence parallelism of one set of degrees."""
    copies = base.dp * base.cp
    for zero, shard_size, reshard in _shardings(copies, base, gpus_per_node):
        for schedule, chunks in _schedules(model, base):
            for recompute in ("none", "full") if model.fused_attention else ("none", "selective", "full"):
                for split in (True, False) if base.tp > 1 else (False,):
                    yield replace(
                        base,
                        zero=zero,
                        shard_size=shard_size,
                        reshard=reshard,
                        schedule=schedule,
                        chunks=chunks,
                        recompute=recompute,
                        sequence_parallel=split,
                    )


def _shardings(copies: int, base: Layout, gpus_per_node: int) -> Iterator[tuple[int, int, bool]]:
    """(ZeRO stage, ranks that share a copy or 0 for all, reshard after forward)."""
    yield 0, 0, True
    if copies == 1:
        return
    yield 1, 0, True
    if base.pp == 1:  # gathering or reducing for every micro-batch is no match for a pipeline
        yield 2, 0, True
        yield 3, 0, True
        yield 3, 0, False
        in_node = gpus_per_node // base.tp
        if 1 < in_node < copies and copies % in_node == 0:
            yield 3, in_node, True


def _schedules(model: Transformer, base: Layout) -> Iterator[tuple[str, int]]:
    yield "1f1b", 1
    if base.pp > 1:
        yield "gpipe", 1
        for chunks in (2, 4):
            if model.layers % (base.pp * chunks) == 0 and base.accumulation % base.pp == 0:
                yield "interleaved", chunks


@dataclass(frozen=True)
class Plans:
    """What the search found: `feasible` fastest first; by kind, what came closest to fitting and did not."""

    model: Transformer
    cluster: Cluster
    gpus: int
    batch: int
    feasible: tuple[Prediction, ...]
    too_large: dict[str, tuple[Layout, Memory]]
    examined: int

    @property
    def best(self) -> Prediction | None:
        return self.feasible[0] if self.feasible else None

    @property
    def by_kind(self) -> dict[str, Prediction]:
        """The fastest of each kind, fastest first."""
        found: dict[str, Prediction] = {}
        for prediction in self.feasible:
            found.setdefault(prediction.layout.kind, prediction)
        return found


def search(
    model: Transformer,
    gpus: int,
    batch: int,
    cluster: Cluster,
    *,
    precision: Precision = PRECISIONS["16"],
    constants: Constants = FITTED,
) -> Plans:
    """Examine every layout. Raises `UsageError` for numbers below 1."""
    if gpus < 1 or batch < 1:
        raise UsageError(f"{gpus} GPUs and a batch of {batch} sequences: both must be at least 1")
    limit = cluster.gpu.memory_gib * GIB
    feasible: list[Prediction] = []
    too_large: dict[str, tuple[Layout, Memory]] = {}
    examined = 0
    for layout in layouts(model, gpus, batch, cluster.gpus_per_node, precision):
        examined += 1
        needed = memory(model, layout, constants)
        if needed.total <= limit:
            time = step_time(model, layout, cluster, constants)
            feasible.append(Prediction(model, layout, cluster, needed, time))
        elif layout.kind not in too_large or needed.total < too_large[layout.kind][1].total:
            too_large[layout.kind] = layout, needed
    # where two are equally fast, the simpler one: fewer kinds of splitting, less memory
    feasible.sort(key=lambda p: (round(p.step_s, 4), _complexity(p.layout), p.memory.total))
    return Plans(model, cluster, gpus, batch, tuple(feasible), too_large, examined)


def _complexity(layout: Layout) -> int:
    return layout.zero + 4 * ((layout.tp > 1) + (layout.pp > 1) + (layout.cp > 1)) + layout.sequence_parallel
