"""The modelled machine: what a collective costs in virtual time.

One formula a collective, the alpha-beta model: a message of B bytes takes ``latency + B / bandwidth``. The presets
carry the round numbers of the hardware (latency of one NCCL step, bus bandwidth in one direction); they are not fitted
to measurements yet, so read differences between plans from them, not absolute times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.cluster.gpu import A100_40GB, A100_80GB, Gpu
from simulator.errors import UsageError

NANOSECONDS = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Seconds as integer virtual nanoseconds."""
    return round(seconds * NANOSECONDS)


@dataclass(frozen=True)
class Link:
    """One kind of connection: latency of a step in microseconds, bandwidth in gigabytes (1e9 bytes) per second."""

    latency_us: float
    bandwidth_gbytes_per_s: float

    def seconds(self, steps: float, num_bytes: float) -> float:
        return steps * self.latency_us * 1e-6 + num_bytes / (self.bandwidth_gbytes_per_s * 1e9)


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes: `intra` joins the GPUs of one node, `inter` joins nodes.

    `failure_detection_s` is the virtual time after which survivors learn that a rank is gone (the monitor interval of a
    torchrun agent).
    """

    name: str
    gpus_per_node: int
    intra: Link
    inter: Link
    failure_detection_s: float = 0.1
    gpu: Gpu = A100_80GB

    def link(self, ranks: Sequence[int]) -> Link:
        """The slowest link that a group of global ranks has to cross."""
        nodes = {rank // self.gpus_per_node for rank in ranks}
        return self.intra if len(nodes) <= 1 else self.inter

    def collective_ns(self, op: str, num_bytes: int, ranks: Sequence[int]) -> int:
        """Duration of a collective over global `ranks`; `num_bytes` counts as nccl-tests does (see `Event.bytes`).

        Sources: Thakur, Rabenseifner, Gropp 2005 (ring and tree costs); nccl-tests PERFORMANCE.md (bus bandwidth
        factors).
        """
        size = len(ranks)
        if size <= 1:
            return 0
        ring, tree = size - 1, math.ceil(math.log2(size))
        share = num_bytes * ring / size
        steps, volume = {
            "all_reduce": (2 * ring, 2 * share),
            "barrier": (2 * tree, 0),
            "monitored_barrier": (2 * tree, 0),
            "broadcast": (tree, num_bytes),
            "reduce": (tree, num_bytes),
        }.get(op, (ring, share))
        return to_ns(self.link(ranks).seconds(steps, volume))

    def p2p_ns(self, num_bytes: int, source: int, target: int) -> int:
        """Duration of one message between two global ranks."""
        return to_ns(self.link((source, target)).seconds(1, num_bytes))


PRESETS = {
    cluster.name: cluster
    for cluster in (
        Cluster("a100-80gb", 8, intra=Link(3.0, 230.0), inter=Link(8.0, 20.0), gpu=A100_80GB),
        Cluster("a100-40gb", 8, intra=Link(3.0, 230.0), inter=Link(8.0, 20.0), gpu=A100_40GB),
    )
}


def get_cluster(cluster: str | Cluster) -> Cluster:
    """A preset by name, or the cluster itself. Raises `UsageError` for an unknown name."""
    if isinstance(cluster, Cluster):
        return cluster
    if cluster not in PRESETS:
        raise UsageError(
            f"unknown cluster {cluster!r}: use one of {', '.join(sorted(PRESETS))}, or a simulator.Cluster"
        )
    return PRESETS[cluster]
