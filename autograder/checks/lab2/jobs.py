"""A data-parallel job on 8 GPUs as a model: what limits it, and the trace that it would leave.

All ranks do the same, so times can be added up: the loader, forward, backward, and all-reduces one after the other on
the stream of their group, each at the cost that `simulator.run` charges for it (tests compare the two).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulator.cluster import get_cluster, to_ns
from simulator.trace import Event, Trace

WORLD_SIZE = 8
STEPS = 3
NVLINK, TCP = "a100-80gb", "a100-80gb-eth100"
CAUSES = ("tiny-batch", "one-bucket", "no-overlap", "slow-link", "slow-loader")


@dataclass(frozen=True)
class Model:
    """What one replica has to do: ``layers`` of equal size, costs in virtual microseconds.

    ``forward_us`` of a layer is for one sample, backward takes twice as long; ``launch_us`` of a layer comes on top,
    whatever the batch. ``load_us`` is what one worker of the loader needs for one sample.
    """

    layers: int = 12
    layer_mb: int = 20
    forward_us: int = 20
    launch_us: int = 20
    load_us: int = 200


@dataclass(frozen=True)
class Job:
    """How the job is set up; the defaults are what each repair sets.

    ``link``: the cluster preset whose network the ranks found; on TCP, ranks of one node talk over the network card.
    """

    batch: int = 64
    bucket_mb: int = 25
    overlap: bool = True
    link: str = NVLINK
    workers: int = 16


BROKEN: dict[str, dict[str, Any]] = {
    "tiny-batch": {"batch": 2},
    "one-bucket": {"bucket_mb": 100_000},
    "no-overlap": {"overlap": False},
    "slow-link": {"link": TCP},
    "slow-loader": {"workers": 1},
}


def with_causes(causes: tuple[str, ...]) -> Job:
    """A job that has these causes of slowness."""
    job = Job()
    for cause in causes:
        job = dataclasses.replace(job, **BROKEN[cause])
    return job


def all_reduce_ns(num_bytes: int, link: str) -> int:
    """Virtual time of an all-reduce on 8 GPUs: of one node with NVLink, or as if each were a node of its own on TCP."""
    cluster = get_cluster(link)
    if link == TCP:
        cluster = dataclasses.replace(cluster, gpus_per_node=1)
    return cluster.collective_ns("all_reduce", num_bytes, range(WORLD_SIZE))


def _compute_ns(model: Model, batch: int) -> int:
    return to_ns((model.launch_us + batch * model.forward_us) * 1e-6)


def _buckets(model: Model, job: Job) -> Iterator[tuple[int, int]]:
    """(layers whose gradients must be ready, bytes) of each bucket: closed when it has reached ``bucket_mb``."""
    held = 0
    for layer in range(1, model.layers + 1):
        held += model.layer_mb
        if held >= job.bucket_mb or layer == model.layers:
            yield layer, held * 1_000_000
            held = 0


def reduces_ns(model: Model, job: Job, begin_ns: int) -> list[tuple[int, int, int, int]]:
    """(issue, start, end, bytes) of each all-reduce of a step whose backward begins at ``begin_ns``."""
    layer_ns = 2 * _compute_ns(model, job.batch)
    done, free, found = begin_ns + model.layers * layer_ns, 0, []
    for ready, num_bytes in _buckets(model, job):
        issue = begin_ns + ready * layer_ns if job.overlap else done
        start = max(issue, free)
        free = start + all_reduce_ns(num_bytes, job.link)
        found.append((issue, start, free, num_bytes))
    return found


def _step_ns(model: Model, job: Job) -> tuple[int, int, int, int]:
    """Virtual times of a step: waiting for the loader, forward, backward, and the whole."""
    forward = model.layers * _compute_ns(model, job.batch)
    busy = max(3 * forward, reduces_ns(model, job, forward)[-1][2])
    load = to_ns(job.batch * model.load_us * 1e-6 / job.workers)  # the next batch is loaded while this one computes
    return max(0, load - busy), forward, 2 * forward, max(load, busy)


def speedup(model: Model, job: Job) -> float:
    """Samples a second on 8 GPUs, over those on one GPU with the full batch, its loader, and nothing to reduce."""
    alone = Job()
    forward = model.layers * _compute_ns(model, alone.batch)
    load = to_ns(alone.batch * model.load_us * 1e-6 / alone.workers)
    one = alone.batch / max(3 * forward, load)
    return WORLD_SIZE * job.batch / _step_ns(model, job)[3] / one


def loader_keeps_up(model: Model) -> bool:
    """Whether the loader of a job that is set up well is never waited for."""
    return _step_ns(model, Job())[0] == 0


def run_job(model: Model, job: Job) -> Trace:
    """The trace of a few steps, in virtual nanoseconds; phases are load, forward and backward."""
    load, forward, backward, whole = _step_ns(model, job)
    events: list[Event] = []
    for step in range(STEPS):
        begin = step * whole
        marks = (begin, begin + load, begin + load + forward, begin + load + forward + backward)
        for rank in range(WORLD_SIZE):
            events += _of_rank(rank, step, marks, reduces_ns(model, job, marks[2]))
    header = {"clock": "virtual", "world_size": WORLD_SIZE, "cluster": job.link, "outcome": "Completed"}
    return Trace(header, events)


def _of_rank(rank: int, step: int, marks: tuple[int, ...], reduces: list[tuple[int, int, int, int]]) -> Iterator[Event]:
    n = step * 1000
    yield Event(rank=rank, n=n, step=step, op="step", issue_ns=marks[0], start_ns=marks[0], end_ns=marks[0])
    for k, phase in enumerate(("load", "forward", "backward")):
        if marks[k] < marks[k + 1]:
            begin, end = marks[k], marks[k + 1]
            yield Event(
                rank=rank, n=n + k + 1, step=step, op="compute", phase=phase, issue_ns=begin, start_ns=begin, end_ns=end
            )
    for k, (issue, start, end, num_bytes) in enumerate(reduces):
        yield Event(
            rank=rank,
            n=n + 10 + k,
            step=step,
            op="all_reduce",
            phase="backward",
            group="default",
            stream="comm:default",
            seq=step * len(reduces) + k,
            work=step * len(reduces) + k,
            reduce="SUM",
            bytes=num_bytes,
            dtype="float32",
            issue_ns=issue,
            start_ns=start,
            end_ns=end,
            wait_ns=marks[3],
        )
