"""FSDP2, HSDP and FSDP1."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from tests.coverage.catalogue import covers
from tests.coverage.programs.models import batch, blocks, local, train

SECTION = "FSDP"
Result = dict[str, object]


def _sharded(mesh: DeviceMesh, **options: Any) -> nn.Module:
    model = blocks()
    for block in model:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def _trained(model: nn.Module) -> Result:
    losses = train(model, torch.optim.AdamW(model.parameters(), 1e-2))
    assert isinstance(model, FSDPModule)
    model.reshard()
    return {"losses": losses, "weights": local(model)}


@covers(SECTION, "`fully_shard` with `reshard_after_forward` True, False and a number", worlds=(2,), slow=(3, 4))
def fsdp2() -> Result:
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    choices: list[bool | int] = [True, False, *([2] if size % 2 == 0 and size > 2 else [])]
    return {str(choice): _trained(_sharded(mesh, reshard_after_forward=choice)) for choice in choices}


@covers(SECTION, "mixed precision (`MixedPrecisionPolicy`), `clip_grad_norm_`, gradient accumulation", worlds=(2,))
def fsdp2_options() -> Result:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policies = {
        "bf16": MixedPrecisionPolicy(param_dtype=torch.bfloat16),
        "bf16, fp32 reduce": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    }
    results: Result = {name: _trained(_sharded(mesh, mp_policy=policy)) for name, policy in policies.items()}
    model = _sharded(mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert isinstance(model, FSDPModule)
    norms = []
    for step in range(4):
        model.set_requires_gradient_sync(step % 2 == 1)
        model(batch(step)).pow(2).mean().backward()
        if step % 2:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor())  # type: ignore[operator]
            optimizer.step()
            optimizer.zero_grad()
    model.reshard()
    return {**results, "clipped": local(model), "norms": norms}


@covers(SECTION, "`fully_shard` with explicit prefetching, unequal shards, `unshard` and `reshard` by hand")
def fsdp2_by_hand() -> Result:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = _sharded(mesh)
    first, second, third = model
    first.set_modules_to_forward_prefetch([second])
    third.set_modules_to_backward_prefetch([second, first])
    handle = first.unshard(async_op=True)
    handle.wait()
    whole = [p.detach().clone() for p in first.parameters()]
    first.reshard()
    return {**_trained(model), "whole": whole}


@covers(SECTION, "HSDP: `fully_shard` on a mesh of (replicate, shard)", worlds=(4,))
def hsdp() -> Result:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    return _trained(_sharded(mesh))


@covers(SECTION, "FSDP1: FULL_SHARD, SHARD_GRAD_OP, NO_SHARD; HYBRID_SHARD with a mesh", worlds=(2,), slow=(4,))
def fsdp1() -> Result:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    from tests.coverage.programs.models import Block

    strategies = [ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD]
    results: Result = {}
    options: dict[str, Any] = {
        "device_id": torch.device("cpu"),
        "use_orig_params": True,
        "auto_wrap_policy": ModuleWrapPolicy({Block}),
    }
    for strategy in strategies:
        model = FullyShardedDataParallel(blocks(), sharding_strategy=strategy, **options)
        losses = train(model, torch.optim.SGD(model.parameters(), 0.1))
        results[strategy.name] = [losses, [p.detach().clone() for p in model.parameters()]]
    if dist.get_world_size() == 4:
        mesh = init_device_mesh("cpu", (2, 2))
        model = FullyShardedDataParallel(
            blocks(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh, **options
        )
        results["hybrid"] = train(model, torch.optim.SGD(model.parameters(), 0.1))
    return results
