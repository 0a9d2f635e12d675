"""What a script for torchrun does around its training runs as it is: init, destroy, init again."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import simulator


def script() -> list[float]:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    model(torch.ones(2, 3)).sum().backward()
    dist.destroy_process_group()
    return [float(tensor)]


def destroys_and_starts_again() -> list[float]:
    dist.init_process_group()
    seen = []
    for _ in range(3):
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=dist.new_group([0, 1, 2]))
        seen.append(float(tensor))
        dist.destroy_process_group()
        dist.init_process_group(backend="cpu:gloo,cuda:nccl")
    return seen


@pytest.mark.parametrize(("program", "result"), [(script, [3.0]), (destroys_and_starts_again, [3.0] * 3)])
def test_init_and_destroy(program, result):
    runs = [simulator.run(program, 3, echo=False) for _ in range(2)]
    for run in runs:
        assert run.ok, run.outcome.explain()
        assert run.results == [result] * 3
    assert runs[0].trace.digest == runs[1].trace.digest


def times_out() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=7))
    if dist.get_rank():
        dist.barrier()


def test_the_timeout_of_the_script_counts():
    outcome = simulator.run(times_out, 2, echo=False).outcome
    assert outcome.name == "CollectiveTimeout"
    assert outcome.text.startswith("After 7 virtual seconds barrier #0")


def initialises_twice() -> str:
    dist.init_process_group()
    try:
        dist.init_process_group()
    except ValueError as error:
        return str(error)
    return ""


def test_a_second_init_is_torch_s_error():
    assert (
        simulator.run(initialises_twice, 2, echo=False).results
        == ["trying to initialize the default process group twice!"] * 2
    )


def asks_for_nccl() -> None:
    dist.init_process_group("nccl")


def test_another_backend_is_refused():
    error = simulator.run(asks_for_nccl, 2, echo=False).outcome.error
    assert error["message"].startswith("init_process_group: ranks talk over gloo")
