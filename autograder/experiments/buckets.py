"""What the bucket size of DDP does to a step on 8 A100s: real runs, recorded in buckets.csv.

``python -m autograder.experiments.buckets`` runs them all again (minutes) and writes the file. Every number in it is
virtual time of a run of `simulator.run` with torch's own DDP; nothing is interpolated.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LAYERS, WIDTH, BATCH = 64, 768, 64
RANKS, STEPS = 8, 3
SIZES_MB = (1, 2.5, 5, 7.5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150)
FILE = Path(__file__).with_suffix(".csv")
COLUMNS = ("bucket_mb", "step", "step_ns", "backward_ns", "bucket", "bytes", "issue_ns", "start_ns", "end_ns")


@dataclass(frozen=True)
class Bucket:
    """One all-reduce of a step: payload in bytes, virtual nanoseconds after the step began."""

    bytes: int
    issue_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Step:
    """A training step of rank 0 (virtual ns): the whole, when its last gradient was ready, and its buckets in order."""

    bucket_mb: float
    step: int
    step_ns: int
    backward_ns: int
    buckets: tuple[Bucket, ...]


def train(bucket_mb: float) -> list[tuple[int, int]]:
    """Three steps of DDP in a rank; returns (begin, last gradient ready) of each in virtual nanoseconds."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import simulator

    zero: Any = torch.cpu.Event()
    zero.record()  # events mark a point of the compute stream and hold nobody up, as on a GPU
    layers = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    model = DistributedDataParallel(layers, bucket_cap_mb=bucket_mb)
    marks: list[tuple[Any, Any]] = []
    begin, ready = zero, zero

    def record(_: Any) -> None:
        ready.record()

    for parameter in layers.parameters():
        hooked: Any = parameter  # torch does not type the method
        hooked.register_post_accumulate_grad_hook(record)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    inputs = torch.ones(BATCH, WIDTH)
    for _ in simulator.steps(STEPS):
        begin, ready = torch.cpu.Event(), torch.cpu.Event()
        begin.record()
        marks.append((begin, ready))
        model(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    end: Any = torch.cpu.Event()
    end.record()
    marks.append((end, end))
    return [(round(zero.elapsed_time(b) * 1e6), round(zero.elapsed_time(r) * 1e6)) for b, r in marks]


def measure(bucket_mb: float) -> list[Step]:
    """Runs DDP on 8 ranks with one bucket size; the steps of rank 0."""
    import simulator

    run = simulator.run(train, RANKS, args=(bucket_mb,), echo=False).raise_for_outcome()
    marks = run.results[0]
    steps = []
    for number in range(STEPS):
        begin = marks[number][0]
        reduces = [e for e in run.trace.of_rank(0) if e.op == "all_reduce" and e.step == number]
        buckets = (Bucket(e.bytes, e.issue_ns - begin, e.start_ns - begin, e.end_ns - begin) for e in reduces)
        whole, backward = marks[number + 1][0] - begin, marks[number][1] - begin
        steps.append(Step(bucket_mb, number, whole, backward, tuple(buckets)))
    return steps


def write(say: Callable[[str], None] = print) -> None:
    """Runs every size and writes buckets.csv."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for size in SIZES_MB:
            for step in measure(size):
                say(f"{size:5} MB, step {step.step}: {step.step_ns / 1e3:8.1f} us, {len(step.buckets)} buckets")
                for k, b in enumerate(step.buckets):
                    row = (step.bucket_mb, step.step, step.step_ns, step.backward_ns)
                    rows.writerow((*row, k, b.bytes, b.issue_ns, b.start_ns, b.end_ns))


@cache
def recorded() -> dict[float, tuple[Step, ...]]:
    """The recorded steps by bucket size in MB, in rising order."""
    rows: dict[tuple[float, int], list[dict[str, str]]] = {}
    with FILE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows.setdefault((float(row["bucket_mb"]), int(row["step"])), []).append(row)
    found: dict[float, tuple[Step, ...]] = {}
    for (size, number), of_step in rows.items():
        buckets = (Bucket(*(int(row[name]) for name in COLUMNS[5:])) for row in of_step)
        step = Step(size, number, int(of_step[0]["step_ns"]), int(of_step[0]["backward_ns"]), tuple(buckets))
        found[size] = (*found.get(size, ()), step)
    return found


if __name__ == "__main__":
    write()
