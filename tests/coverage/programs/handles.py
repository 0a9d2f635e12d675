"""Asynchronous operations: works, futures, coalescing."""

import torch
import torch.distributed as dist

from tests.coverage.catalogue import covers
from tests.coverage.programs.inputs import numbers

SECTION = "Handles and groups"
Result = dict[str, object]


@covers(SECTION, "`async_op=True`, works waited for in reverse order, `is_completed()` polled", worlds=(2, 3))
def works() -> Result:
    size = dist.get_world_size()
    tensors = [numbers(100 * (k + 1), salt=k) for k in range(5)]
    for work in reversed([dist.all_reduce(t, async_op=True) for t in tensors]):
        assert work is not None
        work.wait()
    shard, gathered = torch.empty(4), torch.empty(size * 4)
    first = dist.reduce_scatter_tensor(shard, numbers(size * 4), async_op=True)
    second = dist.all_gather_into_tensor(gathered, numbers(4), async_op=True)
    assert first is not None
    assert second is not None
    second.wait()
    first.wait()
    polled = numbers(8)
    work = dist.all_reduce(polled, async_op=True)
    assert work is not None
    while not work.is_completed():
        pass
    work.wait()
    return {"tensors": tensors, "shard": shard, "gathered": gathered, "polled": polled, "ok": work.is_success()}


@covers(SECTION, "`get_future()`, `.then()` chains, `torch.futures.wait_all` and `collect_all`", worlds=(2, 3))
def futures() -> Result:
    tensors = [numbers(10, salt=k) for k in range(4)]
    chained = []
    for tensor in tensors:
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        chained.append(work.get_future().then(lambda f: f.value()[0] * 2).then(lambda f: f.value() + 1))
    values = torch.futures.wait_all(chained[:2])
    collected = torch.futures.collect_all(chained[2:]).wait()
    return {"values": values, "collected": [f.value() for f in collected], "reduced": tensors}


@covers(SECTION, "`_coalescing_manager`, synchronous and asynchronous; coalesced collectives", worlds=(2, 3))
def coalescing() -> Result:
    from torch.distributed.distributed_c10d import _coalescing_manager

    size = dist.get_world_size()
    reduced = [numbers(k + 1, salt=k) for k in range(3)]
    with _coalescing_manager():
        for tensor in reduced:
            dist.all_reduce(tensor)
    later = [numbers(k + 1, salt=k) for k in range(3)]
    with _coalescing_manager(async_ops=True) as manager:
        for tensor in later:
            dist.all_reduce(tensor)
    manager.wait()
    gathered = [torch.empty(size * (k + 1)) for k in range(3)]
    with _coalescing_manager():
        for k, out in enumerate(gathered):
            dist.all_gather_into_tensor(out, numbers(k + 1, salt=k))
    shards = [torch.empty(k + 1) for k in range(3)]
    with _coalescing_manager():
        for k, out in enumerate(shards):
            dist.reduce_scatter_tensor(out, numbers(size * (k + 1), salt=k))
    return {"reduced": reduced, "later": later, "gathered": gathered, "shards": shards}


@covers(SECTION, '`new_group`, also with `backend="gloo"`, a timeout, overlapping members; `new_subgroups`', slow=(4,))
def subgroups() -> Result:
    from datetime import timedelta

    rank, size = dist.get_rank(), dist.get_world_size()
    results: Result = {}
    groups = [dist.new_group([r, (r + 1) % size], backend="gloo") for r in range(size)]
    for first, group in enumerate(groups):
        if rank in (first, (first + 1) % size):
            tensor = numbers(50, salt=first)
            dist.all_reduce(tensor, group=group)
            results[f"pair {first}"] = [tensor, dist.get_rank(group), dist.get_world_size(group)]
    everyone = dist.new_group(timeout=timedelta(seconds=30), group_desc="everyone")
    tensor = numbers(3)
    dist.broadcast(tensor, src=1, group=everyone)
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, rank, group=everyone)
    alone, _ = dist.new_subgroups(group_size=1)
    own = numbers(2)
    dist.all_reduce(own, group=alone)
    by_group_rank = numbers(3)
    dist.broadcast(by_group_rank, group=everyone, group_src=2)
    return {**results, "everyone": tensor, "objects": objects, "own": own, "group_src": by_group_rank}


@covers(SECTION, "device meshes of one and more dimensions, slices, flattening", worlds=(4,))
def meshes() -> Result:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    results: Result = {}
    for dim in ("replicate", "shard"):
        tensor = numbers(9)
        dist.all_reduce(tensor, group=mesh.get_group(dim))
        results[dim] = [tensor, mesh.get_local_rank(dim)]
    flat = mesh["replicate", "shard"]._flatten("all")
    tensor = numbers(9)
    dist.all_reduce(tensor, group=flat.get_group())
    return {**results, "flat": tensor}


@covers(SECTION, "DTensor: distribute, redistribute, sharded arithmetic", worlds=(2,), slow=(4,))
def dtensors() -> Result:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.randn(8, 6)
    rows, columns = distribute_tensor(whole, mesh, [Shard(0)]), distribute_tensor(whole, mesh, [Shard(1)])
    return {
        "to columns": rows.redistribute(mesh, [Shard(1)]).to_local(),
        "whole": columns.redistribute(mesh, [Replicate()]).to_local(),
        "product": (rows @ distribute_tensor(whole.T.contiguous(), mesh, [Replicate()])).full_tensor(),
        "partial": (columns @ columns.T).full_tensor(),
        "mean": rows.mean().full_tensor(),
    }
