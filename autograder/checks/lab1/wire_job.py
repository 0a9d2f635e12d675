"""The jobs of lab1/communication-volume: what the student's functions get, and the same on real ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from simulator.planner import Transformer
from simulator.planner.wire import Shape, parameter_units

#: Bytes of a number in FP32: everything in these runs is.
ITEMSIZE = 4
RING_OPS = ("all_reduce", "reduce_scatter", "all_gather")


class Job(NamedTuple):
    """One training step of `batch` sequences of `seq_len` tokens on `ranks` ranks, all numbers in FP32.

    `units` holds the shapes of the parameters by unit: each of the `layers`, then the root (embedding, last norm and
    output matrix). `micro_batches` is for pipelines.
    """

    units: list[list[Shape]]
    layers: int
    width: int
    seq_len: int
    batch: int
    ranks: int
    micro_batches: int
    itemsize: int = ITEMSIZE


def job(model: Transformer, batch: int, ranks: int, micro_batches: int) -> Job:
    """The job as plain numbers."""
    return Job(
        parameter_units(model), model.layers, model.d_model, model.seq_len, batch, ranks, micro_batches, ITEMSIZE
    )


def rings(length: int) -> None:
    """The three ring collectives of `length` numbers, from messages only, a step each. In ranks."""
    import torch
    import torch.distributed as dist

    import simulator

    rank, size = dist.get_rank(), dist.get_world_size()
    for step in simulator.steps(len(RING_OPS)):
        pieces = list(torch.ones(length).tensor_split(size))
        for turn in range((2 if RING_OPS[step] == "all_reduce" else 1) * (size - 1)):
            handle = dist.isend(pieces[(rank - turn) % size], (rank + 1) % size)
            arrived = torch.empty_like(pieces[(rank - turn - 1) % size])
            dist.recv(arrived, (rank - 1) % size)
            assert handle is not None
            handle.wait()
            pieces[(rank - turn - 1) % size] += arrived


def ring_bytes(length: int, ranks: int) -> dict[str, int]:
    """From the trace of `rings`: bytes that rank 0 sent in each of them."""
    import simulator

    run = simulator.run(rings, ranks, args=(length,), echo=False).raise_for_outcome()
    return {
        op: sum(e.bytes for e in run.trace.of_rank(0) if e.op == "send" and e.step == step)
        for step, op in enumerate(RING_OPS)
    }


def lane_step(*arguments: Any) -> Any:
    """In the ranks of a reference run."""
    from autograder.checks.lab1.toy import one_step

    return one_step(*arguments)


def lane_events(lane: str, model: Transformer, batch: int, ranks: int, micro_batches: int) -> list[Sequence[Any]]:
    """From the trace of a real step, for each rank: (op, bytes) of what carried FP32 numbers, set-up not counted."""
    import simulator
    from simulator.cluster.algorithms import plain_name

    run = simulator.run(lane_step, ranks, args=(lane, model, batch, micro_batches), echo=False).raise_for_outcome()
    return [
        [
            (plain_name(e.op), e.bytes)
            for e in run.trace.of_rank(rank)
            if e.is_communication and e.dtype == "float32" and e.op not in ("broadcast", "recv")
        ]
        for rank in range(ranks)
    ]
