"""What joins the GPUs: a plain link of two numbers, and a fabric with the constants that a fit found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One kind of connection: latency of a step in microseconds, bandwidth in gigabytes (1e9 bytes) per second."""

    latency_us: float
    bandwidth_gbytes_per_s: float

    def seconds(self, steps: float, num_bytes: float) -> float:
        return steps * self.latency_us * 1e-6 + num_bytes / (self.bandwidth_gbytes_per_s * 1e9)


@dataclass(frozen=True)
class Fabric:
    """How NCCL's collectives behave on one kind of link: two protocols, of which the faster one runs.

    *Short* messages carry a flag beside the data: a hop costs little, a byte much. Only the first piece shows, later
    ones hide behind the hops. *Bulk* messages synchronise once and stream. The idea, not the constants, is that of the
    protocols LL and Simple in NCCL's tuning model (src/graph/tuning.cc).

    `bandwidth_gbytes_per_s` is the bus bandwidth (nccl-tests PERFORMANCE.md) that large collectives reach: inside a
    node, of a GPU; between nodes, of a node. `all_reduce_gain` is above 1 where the switch adds (NVLink SHARP).
    `measured` names the collectives that the constants were fitted to, `source` where the numbers come from; every
    other collective is derived from the formulas.
    """

    name: str
    short_base_us: float
    short_hop_us: float
    short_us_per_kb: float
    bulk_base_us: float
    bulk_hop_us: float
    bandwidth_gbytes_per_s: float
    all_reduce_gain: float = 1.0
    measured: tuple[str, ...] = ()
    source: str = ""

    def seconds(self, hops: float, first_piece_bytes: float, num_bytes: float, gbytes_per_s: float) -> float:
        """The faster protocol: so many hops in a row, a first piece, and `num_bytes` sent at that bandwidth."""
        streaming_us = num_bytes / (gbytes_per_s * 1e3)
        short_us = self.short_base_us + hops * self.short_hop_us
        short_us += max(first_piece_bytes * self.short_us_per_kb * 1e-3, streaming_us)
        return min(short_us, self.bulk_base_us + hops * self.bulk_hop_us + streaming_us) * 1e-6
