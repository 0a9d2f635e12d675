"""The model of lab2/eight-slower-than-one against the simulator: the same job as a program of 8 real ranks."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.distributed as dist

import simulator
from autograder.checks.lab2.jobs import NVLINK, WORLD_SIZE, Job, Model, all_reduce_ns, reduces_ns, run_job, speedup
from simulator.cluster import NO_GPU, get_cluster

MODEL = Model(layers=3, layer_mb=2, forward_us=5, launch_us=20)
JOBS = [Job(batch=8, bucket_mb=2), Job(batch=8, bucket_mb=100), Job(batch=8, bucket_mb=2, overlap=False)]


def train(model: Model, job: Job) -> None:
    layer_s = (model.launch_us + job.batch * model.forward_us) * 1e-6
    for _ in simulator.steps(2):
        with simulator.annotate("forward"):
            simulator.compute(model.layers * layer_s)
        held, waiting, handles = 0, [], []
        with simulator.annotate("backward"):
            for layer in range(model.layers):
                simulator.compute(2 * layer_s)
                held += model.layer_mb
                if held >= job.bucket_mb or layer == model.layers - 1:
                    waiting.append(torch.zeros(held * 250_000))
                    held = 0
                while waiting and (job.overlap or layer == model.layers - 1):
                    handles.append(dist.all_reduce(waiting.pop(0), async_op=True))
            for handle in handles:
                handle.wait()


@pytest.mark.parametrize("job", JOBS, ids=["buckets", "one bucket", "no overlap"])
def test_a_job_takes_the_virtual_time_of_its_program(job: Job) -> None:
    cluster = dataclasses.replace(get_cluster(NVLINK), gpu=NO_GPU)
    run = simulator.run(train, WORLD_SIZE, args=(MODEL, job), cluster=cluster, echo=False)
    assert run.ok, run.outcome.text
    real = [e for e in run.trace.of_rank(5) if e.op == "all_reduce" and e.step == 1]
    model = [e for e in run_job(MODEL, job).of_rank(5) if e.op == "all_reduce" and e.step == 1]
    times = [[(e.bytes, e.issue_ns, e.start_ns, e.end_ns) for e in events] for events in (real, model)]
    assert times[0] == times[1]


def test_each_repair_helps() -> None:
    heavy = Model(layer_mb=60, forward_us=4, load_us=100)
    assert speedup(heavy, Job()) > 4.5
    for bad in (Job(batch=2), Job(bucket_mb=1000), Job(overlap=False), Job(link="a100-80gb-eth100")):
        assert speedup(heavy, bad) < 0.8 * speedup(heavy, Job())
    assert reduces_ns(heavy, Job(overlap=False), 0)[0][0] == 2 * heavy.layers * (20 + 64 * 4) * 1000
    assert all_reduce_ns(1_000_000, "a100-80gb-eth100") > 4 * all_reduce_ns(1_000_000, NVLINK)
