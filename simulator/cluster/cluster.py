"""The modelled machine: nodes of GPUs, and what a collective costs in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.cluster.algorithms import GroupShape, algorithm_seconds, plain_name
from simulator.cluster.fabric_cost import across_nodes_seconds, in_node_seconds
from simulator.cluster.gpu import A100_80GB, Gpu
from simulator.cluster.links import Fabric, Link

NANOSECONDS = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Seconds as integer virtual nanoseconds."""
    return round(seconds * NANOSECONDS)


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes: `intra` joins two GPUs of one node, `inter` two GPUs of different nodes.

    Collectives on a cluster of plain links cost what the textbook says: the ring over the slowest link that the group
    crosses. Presets add fabrics, whose constants are fitted to measurements of NCCL.

    `failure_detection_s` is the virtual time after which survivors learn that a rank is gone (the monitor interval of a
    torchrun agent). `restart_delay_s` is what then passes until a new incarnation runs user code (stop the others, meet
    again, start processes): an assumption. torchrun on one machine takes 2 s and more, a large job minutes.
    """

    name: str
    gpus_per_node: int
    intra: Link
    inter: Link
    failure_detection_s: float = 0.1
    gpu: Gpu = A100_80GB
    intra_fabric: Fabric | None = None
    inter_fabric: Fabric | None = None
    restart_delay_s: float = 10.0

    def link(self, ranks: Sequence[int]) -> Link:
        """The slowest link that a group of global ranks has to cross."""
        return self.intra if self.shape(ranks).nodes <= 1 else self.inter

    def shape(self, ranks: Sequence[int]) -> GroupShape:
        """How a group of global ranks lies on the nodes: consecutive ranks fill a node."""
        return GroupShape.of(ranks, self.gpus_per_node)

    def collective_ns(
        self, op: str, num_bytes: int, ranks: Sequence[int], *, algorithm: str | None = None, link_factor: float = 1.0
    ) -> int:
        """Duration of a collective over global `ranks`; `num_bytes` counts as nccl-tests does (see `Event.bytes`).

        `algorithm` ("ring", "tree", "hierarchical") asks for one textbook algorithm on the plain links instead of what
        the library would choose. `link_factor` says how many times slower than usual the group's links move bytes.
        """
        return to_ns(self.collective_s(op, num_bytes, self.shape(ranks), algorithm=algorithm, link_factor=link_factor))

    def collective_s(
        self,
        op: str,
        num_bytes: float,
        shape: GroupShape,
        *,
        algorithm: str | None = None,
        concurrent: float = 1.0,
        link_factor: float = 1.0,
    ) -> float:
        """Seconds of a collective over a group of that shape, while `concurrent` such groups share each node's network.

        Sources: see `algorithms` (textbook formulas) and `Fabric` (fitted ones).
        """
        if shape.size <= 1:
            return 0.0
        op = plain_name(op)
        if algorithm is None and shape.nodes == 1 and self.intra_fabric:
            return in_node_seconds(op, num_bytes, shape.size, self.intra_fabric, link_factor)
        if algorithm is None and self.intra_fabric and self.inter_fabric:
            return across_nodes_seconds(
                op,
                num_bytes,
                shape,
                intra=self.intra_fabric,
                inter=self.inter_fabric,
                rail_gbytes_per_s=self.inter.bandwidth_gbytes_per_s,
                concurrent=concurrent,
                link_factor=link_factor,
            )
        return algorithm_seconds(
            algorithm or "ring",
            op,
            num_bytes,
            shape,
            _slowed(self.intra, link_factor),
            _slowed(self.inter, link_factor),
        )

    def p2p_ns(self, num_bytes: int, source: int, target: int, *, link_factor: float = 1.0) -> int:
        """Duration of one message between two global ranks."""
        return to_ns(_slowed(self.link((source, target)), link_factor).seconds(1, num_bytes))

    def basis(self, op: str, shape: GroupShape) -> str:
        """Where the cost comes from: "fitted" to measurements of this collective on such links, or "derived"."""
        fabric = self.intra_fabric if shape.nodes <= 1 else self.inter_fabric
        whole_nodes = shape.nodes <= 1 or shape.per_node == self.gpus_per_node
        return "fitted" if fabric and plain_name(op) in fabric.measured and whole_nodes else "derived"


def _slowed(link: Link, factor: float) -> Link:
    return link if factor == 1.0 else Link(link.latency_us, link.bandwidth_gbytes_per_s / factor)
