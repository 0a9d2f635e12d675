"""Collectives on fitted fabrics: inside a node the ring; between nodes NCCL's tree, the ring where it has no tree."""

from __future__ import annotations

import math

from simulator.cluster.algorithms import ROOTED, GroupShape, bytes_sent, passes, payload
from simulator.cluster.links import Fabric

_THROUGH_ONE_RANK = ("gather", "scatter")


def in_node_seconds(op: str, num_bytes: float, size: int, fabric: Fabric, link_factor: float) -> float:
    """The ring: `size` - 1 hops a pass."""
    gain = fabric.all_reduce_gain if op == "all_reduce" else 1.0
    gbytes_per_s = fabric.bandwidth_gbytes_per_s * gain / link_factor
    first_piece = payload(op, num_bytes) / size
    return fabric.seconds(passes(op) * (size - 1), first_piece, bytes_sent(op, num_bytes, size), gbytes_per_s)


def across_nodes_seconds(
    op: str,
    num_bytes: float,
    shape: GroupShape,
    *,
    intra: Fabric,
    inter: Fabric,
    rail_gbytes_per_s: float,
    concurrent: float,
    link_factor: float,
) -> float:
    """A node sends at most `inter`'s bandwidth, shared by `concurrent` groups, and a GPU at most one rail.

    The tree crosses log2(nodes) links a pass and the chain in the node is part of the fitted base. The ring crosses
    every link once.
    """
    node = inter.bandwidth_gbytes_per_s / concurrent
    if op == "all_to_all" or op in _THROUGH_ONE_RANK:
        return _direct_seconds(op, num_bytes, shape, intra, inter, node, rail_gbytes_per_s, link_factor)
    gain = intra.all_reduce_gain if op == "all_reduce" else 1.0
    gbytes_per_s = min(shape.per_node * rail_gbytes_per_s, node)
    if shape.per_node > 1:
        gbytes_per_s = min(gbytes_per_s, intra.bandwidth_gbytes_per_s * gain)
    volume = bytes_sent(op, num_bytes, shape.size)
    if passes(op) == 2 or op in ROOTED:
        levels = math.log2(shape.nodes)
        return inter.seconds(passes(op) * levels, payload(op, num_bytes) * levels, volume, gbytes_per_s / link_factor)
    chain = (shape.size - shape.nodes) * intra.short_hop_us * 1e-6
    return chain + inter.seconds(shape.nodes - 1, num_bytes / shape.size, volume, gbytes_per_s / link_factor)


def _direct_seconds(
    op: str,
    num_bytes: float,
    shape: GroupShape,
    intra: Fabric,
    inter: Fabric,
    node_gbytes_per_s: float,
    rail_gbytes_per_s: float,
    link_factor: float,
) -> float:
    """Every pair speaks directly: what leaves the node goes over each GPU's rail, or over the root's alone."""
    senders = 1 if op in _THROUGH_ONE_RANK else shape.per_node
    rail = min(rail_gbytes_per_s, node_gbytes_per_s / senders) / link_factor
    out = num_bytes * (shape.size - shape.per_node) / shape.size
    inside = num_bytes * (shape.per_node - 1) / shape.size
    return inter.seconds(1, out, out, rail) + inside / (intra.bandwidth_gbytes_per_s * 1e9)
