"""What an algorithm makes each GPU do: steps in a row, and bytes to send. Bytes count as nccl-tests counts them.

Sources: Thakur, Rabenseifner, Gropp 2005 (ring and tree); Jia et al. 2018, arXiv:1807.11205 (hierarchical all-reduce).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.cluster.links import Link
from simulator.errors import UsageError

ALGORITHMS = ("ring", "tree", "hierarchical")
#: Both halves, reduce and distribute.
_TWICE = ("all_reduce", "barrier", "monitored_barrier")
_WITHOUT_PAYLOAD = ("barrier", "monitored_barrier")
ROOTED = ("broadcast", "reduce")


@dataclass(frozen=True)
class GroupShape:
    """How a group lies on the nodes: its size, the nodes it touches, the most members on one of them."""

    size: int
    nodes: int
    per_node: int

    @staticmethod
    def of(ranks: Sequence[int], gpus_per_node: int) -> GroupShape:
        nodes: dict[int, int] = {}
        for rank in ranks:
            nodes[rank // gpus_per_node] = nodes.get(rank // gpus_per_node, 0) + 1
        return GroupShape(len(ranks), len(nodes), max(nodes.values(), default=0))


def plain_name(op: str) -> str:
    """torch names one collective several ways: all_gather for all_gather_into_tensor_coalesced."""
    op = op.removesuffix("_coalesced")
    for form in ("_into_tensor", "_tensor", "_single"):
        op = op.removesuffix(form)
    return op


def passes(op: str) -> int:
    """2 for a collective that reduces and distributes, else 1."""
    return 2 if op in _TWICE else 1


def payload(op: str, num_bytes: float) -> float:
    """Bytes that the collective works on: none for a barrier."""
    return 0 if op in _WITHOUT_PAYLOAD else num_bytes


def bytes_sent(op: str, num_bytes: float, size: int) -> float:
    """Bytes that one rank sends in the ring algorithm: nccl-tests' bus-bandwidth factor times `num_bytes`."""
    factor = 1.0 if op in ROOTED else passes(op) * (size - 1) / size
    return factor * payload(op, num_bytes) if size > 1 else 0.0


def ring_seconds(op: str, num_bytes: float, size: int, link: Link) -> float:
    """Neighbours pass pieces around: the fewest bytes, a latency that grows with the group.

    Rooted collectives and barriers take the tree, as they carry no pieces worth passing around.
    """
    tree_steps = math.ceil(math.log2(size))
    rounds = tree_steps if op in ROOTED or op in _WITHOUT_PAYLOAD else size - 1
    return link.seconds(passes(op) * rounds, bytes_sent(op, num_bytes, size))


def tree_seconds(op: str, num_bytes: float, size: int, link: Link) -> float:
    """Up a binary tree and down again, pipelined: a latency that grows with the logarithm, every byte twice."""
    if op not in (*_TWICE, *ROOTED):
        raise UsageError(f"{op} has no tree algorithm: each rank ends with other data; use the ring")
    return link.seconds(passes(op) * math.ceil(math.log2(size)), passes(op) * payload(op, num_bytes))


def hierarchical_seconds(op: str, num_bytes: float, shape: GroupShape, intra: Link, inter: Link) -> float:
    """Reduce-scatter in each node, all-reduce between nodes on one share a GPU, all-gather in each node."""
    if op != "all_reduce":
        raise UsageError(f"the hierarchical algorithm is one of all_reduce, not of {op}; use the ring")
    in_node = 0.0
    if shape.per_node > 1:
        in_node = 2 * ring_seconds("all_gather", num_bytes, shape.per_node, intra)
    if shape.nodes == 1:
        return in_node
    return in_node + ring_seconds("all_reduce", num_bytes / shape.per_node, shape.nodes, inter)


def algorithm_seconds(algorithm: str, op: str, num_bytes: float, shape: GroupShape, intra: Link, inter: Link) -> float:
    """Seconds of a named algorithm on plain links. Raises `UsageError` for an algorithm that the collective lacks."""
    if algorithm not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {algorithm!r}: use one of {', '.join(ALGORITHMS)}")
    if shape.size <= 1:
        return 0.0
    slowest = intra if shape.nodes <= 1 else inter
    if algorithm == "hierarchical":
        return hierarchical_seconds(op, num_bytes, shape, intra, inter)
    return (ring_seconds if algorithm == "ring" else tree_seconds)(op, num_bytes, shape.size, slowest)
