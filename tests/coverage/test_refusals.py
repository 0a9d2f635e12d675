"""What cannot run says so in one sentence, which also says what to use; and docs/coverage.md shows that sentence."""

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simulator


def split_group() -> None:
    dist.split_group(split_ranks=[[0], [1]])


def context_parallel() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    queries = torch.randn(1, 2, 8, 4)
    with context_parallel(init_device_mesh("cpu", (2,)), buffers=[queries], buffer_seq_dims=[2]):
        nn.functional.scaled_dot_product_attention(queries, queries, queries, is_causal=True)


def hybrid_shard_without_mesh() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import always_wrap_policy

    FullyShardedDataParallel(
        nn.Linear(4, 4),
        sharding_strategy=ShardingStrategy.HYBRID_SHARD,
        auto_wrap_policy=always_wrap_policy,
        device_id=torch.device("cpu"),
    )


def float8_sum() -> None:
    dist.all_reduce(torch.ones(4).to(torch.float8_e4m3fn))


def float8_broadcast() -> None:
    dist.broadcast(torch.ones(4).to(torch.float8_e4m3fn), 0)


def complex_gather() -> None:
    size = dist.get_world_size()
    ones = torch.ones(4, dtype=torch.complex64)
    dist.gather(ones, [torch.empty_like(ones) for _ in range(size)] if dist.get_rank() == 0 else None)


def premul_sum() -> None:
    dist.all_reduce(torch.ones(3), op=dist._make_nccl_premul_sum(2.0))  # type: ignore[attr-defined]


def nccl_group() -> None:
    dist.new_group([0, 1], backend="nccl")


def gpu_mesh() -> None:
    from torch.distributed.device_mesh import init_device_mesh

    init_device_mesh("cuda", (2,))


def checkpoint_in_a_process() -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    dcp.async_save(
        {"w": torch.ones(2)}, checkpoint_id="/dev/null/refused", async_checkpointer_type=AsyncCheckpointerType.PROCESS
    )


def remote_calls() -> None:
    from torch.distributed import rpc

    rpc.init_rpc("worker", rank=dist.get_rank(), world_size=2)


#: program: (what it uses, the sentence). docs/coverage.md shows both.
REFUSED: dict[Callable[[], None], tuple[str, str]] = {
    split_group: ("`split_group`", "split_group works on NCCL only: use dist.new_group(ranks)"),
    nccl_group: ('`new_group(backend="nccl")`', "ranks talk over gloo, there is no other backend"),
    gpu_mesh: ('`init_device_mesh("cuda", ...)`', "ranks are CPU processes without a GPU"),
    context_parallel: ("`context_parallel`", "ring with dist.batch_isend_irecv"),
    hybrid_shard_without_mesh: ("FSDP1 HYBRID_SHARD without a mesh", 'init_device_mesh("cpu", (replicas, shards))'),
    float8_sum: ("float8 tensors", "gloo cannot carry float8_e4m3fn in all_reduce: convert to another dtype first"),
    float8_broadcast: ("", "gloo cannot carry float8_e4m3fn in broadcast"),
    complex_gather: ("`gather` and `scatter` of complex tensors", "gloo cannot carry complex64 in gather"),
    premul_sum: ("PREMUL_SUM", "PREMUL_SUM works on NCCL only: multiply the tensor first and reduce with SUM"),
    checkpoint_in_a_process: ("`async_save` with a process", "async_checkpointer_type=AsyncCheckpointerType.THREAD"),
    remote_calls: ("`torch.distributed.rpc`", "torch.distributed.rpc does not go through process groups"),
}


def sentence(program: Callable[..., Any]) -> str:
    """What the rank says."""
    return str(refusal(program)["message"])


@functools.cache
def refusal(program: Callable[..., Any]) -> dict[str, Any]:
    """The first failing rank's exception."""
    outcome = simulator.run(program, 2, echo=False).outcome
    assert outcome.name == "RankFailed", outcome.explain()
    assert outcome.error is not None
    return dict(outcome.error)


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_one_sentence_says_what_to_use(program: Callable[[], None]) -> None:
    error = refusal(program)
    assert error["type"] == "Unsupported"
    assert REFUSED[program][1] in error["message"]
    assert not re.search(r"INTERNAL ASSERT|\.cpp|\n", error["message"])
    assert error["frames"][-1]["function"] == program.__name__, "the user's line is named"


def catches_a_refusal() -> str:
    try:
        dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn))
    except NotImplementedError as error:
        return type(error).__name__
    return ""


def test_a_program_can_catch_a_refusal_and_go_on() -> None:
    run = simulator.run(catches_a_refusal, 3, echo=False)
    assert run.ok, run.outcome.explain()
    assert run.results == ["Unsupported"] * 3
