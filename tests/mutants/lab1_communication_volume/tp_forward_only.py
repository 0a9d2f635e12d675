# exercise: lab1/communication-volume
# finding: tp
# hint: tp
# wrong: backward sums gradients as often
import math

from autograder.checks.lab1.wire_job import Job


def wire(op: str, num_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring."""
    turns = (ranks - 1) * (2 if op == "all_reduce" else 1)
    return turns * num_bytes / ranks


def step_bytes(strategy: str, job: Job, rank: int) -> float:
    """Bytes that `rank` sends in one step."""

    def size(unit: list[tuple[int, ...]], pieces: int = 1) -> int:
        padded = (math.ceil(rows / pieces) * pieces * math.prod(rest) for rows, *rest in unit)
        return sum(padded) * job.itemsize

    if strategy == "ddp":
        return wire("all_reduce", sum(size(unit) for unit in job.units), job.ranks)
    if strategy == "zero3":
        *layers, root = (size(unit, job.ranks) for unit in job.units)
        gathered, reduced = 2 * sum(layers) + root, sum(layers) + root
        return wire("all_gather", gathered, job.ranks) + wire("reduce_scatter", reduced, job.ranks)
    activations = job.batch * job.seq_len * job.width * job.itemsize
    if strategy == "tp":
        return 2 * job.layers * wire("all_reduce", activations, job.ranks)
    neighbours = (rank > 0) + (rank < job.ranks - 1)
    return neighbours * activations


def most_ranks(compute_s: float, passes: int, num_bytes: float, gbytes_per_s: float) -> int:
    """The largest number of ranks at which the network is not slower than the computing on a rank."""
    return 1 + math.floor(compute_s * gbytes_per_s * 1e9 / (passes * num_bytes))
