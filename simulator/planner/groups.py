"""Where the groups of a layout lie: which of them stay in a node, and how many share a node's network."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cluster import Cluster
from simulator.cluster.algorithms import GroupShape
from simulator.planner.layout import Layout


@dataclass(frozen=True)
class Group:
    """A communicating group and the number of its kind that use one node's network at the same time."""

    shape: GroupShape
    concurrent: float

    def seconds(self, cluster: Cluster, op: str, num_bytes: float) -> float:
        return cluster.collective_s(op, num_bytes, self.shape, concurrent=self.concurrent)


def group(size: int, stride: int, gpus_per_node: int) -> Group:
    """`size` ranks, `stride` apart, the first at the beginning of a node."""
    per_node = max(1, min(size, gpus_per_node // stride))
    nodes = -(-size // per_node)
    return Group(GroupShape(size, nodes, per_node), gpus_per_node / per_node if nodes > 1 else 1.0)


@dataclass(frozen=True)
class Groups:
    """Of one rank: tensor, context, data (all ranks that hold the same parameters), one shard group, its replicas."""

    tensor: Group
    context: Group
    data: Group
    shard: Group
    replicas: Group
    stages_share_a_node: bool

    @staticmethod
    def of(layout: Layout, gpus_per_node: int) -> Groups:
        data, shards = layout.dp * layout.cp, layout.shards
        return Groups(
            tensor=group(layout.tp, 1, gpus_per_node),
            context=group(layout.cp, layout.tp, gpus_per_node),
            data=group(data, layout.tp, gpus_per_node),
            shard=group(shards, layout.tp, gpus_per_node),
            replicas=group(data // shards, layout.tp * shards, gpus_per_node),
            stages_share_a_node=layout.gpus <= gpus_per_node,
        )
