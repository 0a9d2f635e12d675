"""Every collective with every dtype that gloo takes."""

import torch
import torch.distributed as dist

from tests.coverage.catalogue import covers
from tests.coverage.programs.inputs import DTYPES, FLOATS, INTEGERS, error_of, name, numbers

SECTION = "Collectives"
Result = dict[str, object]
_COMPARED = (dist.ReduceOp.MIN, dist.ReduceOp.MAX)
_ADDED = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT)
_BITWISE = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


@covers(
    SECTION, "`all_reduce` with SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR; every dtype", worlds=(2, 3), slow=(4,)
)
def all_reduce() -> Result:
    results: Result = {}
    for dtype in DTYPES:
        ops = list(_ADDED) if dtype is not torch.complex64 else [dist.ReduceOp.SUM]
        ops += [dist.ReduceOp.AVG] if dtype in FLOATS else []
        ops += _COMPARED if dtype is not torch.complex64 else ()
        ops += _BITWISE if dtype in INTEGERS else ()
        for op in ops:
            for size in (1, 7, 1001):
                tensor = numbers(size, dtype=dtype)
                dist.all_reduce(tensor, op=op)
                results[f"{name(dtype)} {op} {size}"] = tensor
    return results


@covers(SECTION, "`all_reduce` of scalars, empty and non-contiguous tensors, under autograd", worlds=(3,))
def all_reduce_shapes() -> Result:
    scalar, empty = numbers(1)[0], torch.empty(0)
    dist.all_reduce(scalar)
    dist.all_reduce(empty)
    leaf = numbers(4).requires_grad_()
    doubled = leaf * 2
    with torch.no_grad():
        dist.all_reduce(doubled)
    doubled.sum().backward()
    return {"scalar": scalar, "empty": empty, "grad": leaf.grad, "doubled": doubled}


@covers(SECTION, "`all_gather` of tensors, `all_gather_into_tensor`; every dtype", worlds=(2, 3), slow=(4,))
def all_gather() -> Result:
    results: Result = {}
    size = dist.get_world_size()
    for dtype in DTYPES:
        tensor = numbers(5, 3, dtype=dtype)
        parts = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(parts, tensor)
        joined = torch.empty(size * 5, 3, dtype=dtype)
        dist.all_gather_into_tensor(joined, tensor)
        results[name(dtype)] = [*parts, joined]
    return results


@covers(SECTION, "`reduce_scatter` of lists (also of unequal parts), `reduce_scatter_tensor`", worlds=(2, 3), slow=(4,))
def reduce_scatter() -> Result:
    results: Result = {}
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (*FLOATS, torch.int64):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, *([dist.ReduceOp.AVG] if dtype in FLOATS else [])):
            whole = numbers(size * 6, dtype=dtype)
            shard = torch.empty(6, dtype=dtype)
            dist.reduce_scatter_tensor(shard, whole, op=op)
            listed = torch.empty(6, dtype=dtype)
            dist.reduce_scatter(listed, list(whole.chunk(size)), op=op)
            results[f"{name(dtype)} {op}"] = [shard, listed]
    uneven = [numbers(peer + 1, salt=peer) for peer in range(size)]
    mine = torch.empty(rank + 1)
    dist.reduce_scatter(mine, uneven)
    return {**results, "uneven": mine}


@covers(SECTION, "`all_to_all_single` (also with unequal splits), `all_to_all` of lists", worlds=(2, 3), slow=(4,))
def all_to_all() -> Result:
    results: Result = {}
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        received = torch.empty(size * 2, dtype=dtype)
        dist.all_to_all_single(received, numbers(size * 2, dtype=dtype))
        results[name(dtype)] = received
    out_splits, in_splits = [rank + 1] * size, [peer + 1 for peer in range(size)]
    uneven = torch.empty(sum(out_splits))
    dist.all_to_all_single(uneven, numbers(sum(in_splits)), out_splits, in_splits)
    parts = [torch.empty(4) for _ in range(size)]
    dist.all_to_all(parts, [numbers(4, salt=peer) for peer in range(size)])
    return {**results, "uneven": uneven, "list": parts}


@covers(SECTION, "`broadcast`, `reduce`, `gather`, `scatter` from and to every root", worlds=(2, 3), slow=(4,))
def rooted() -> Result:
    results: Result = {}
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        for dtype in DTYPES[:-1]:  # gloo gathers and scatters no complex numbers
            sent, reduced = numbers(5, dtype=dtype), numbers(5, dtype=dtype)
            dist.broadcast(sent, root)
            dist.reduce(reduced, root)
            gathered = [torch.empty(5, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(numbers(5, dtype=dtype), gathered, dst=root)
            scattered = torch.empty(5, dtype=dtype)
            parts = [numbers(5, dtype=dtype, salt=peer) for peer in range(size)] if rank == root else None
            dist.scatter(scattered, parts, src=root)
            results[f"{name(dtype)} {root}"] = [sent, reduced if rank == root else None, gathered, scattered]
    return results


@covers(SECTION, "`barrier`, `monitored_barrier`", worlds=(2, 3))
def barriers() -> Result:
    import datetime

    dist.barrier()
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)
    dist.barrier(async_op=True).wait()
    return {"backend": dist.get_backend()}


@covers(SECTION, "what gloo refuses is refused in gloo's words (complex PRODUCT, uneven lists, stacked output, ...)")
def refused_by_gloo() -> Result:
    size = dist.get_world_size()
    ones = [torch.ones(k + 1) for k in range(size)]
    calls = {
        "complex product": lambda: dist.all_reduce(numbers(3, dtype=torch.complex64), op=dist.ReduceOp.PRODUCT),
        "uneven all_to_all": lambda: dist.all_to_all([torch.empty(1)] * size, ones),
        "stacked output": lambda: dist.all_gather_into_tensor(torch.empty(size, 2), torch.ones(2)),
        "integer average": lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64), op=dist.ReduceOp.AVG),
        "float and": lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND),
        "sparse": lambda: dist.broadcast(torch.ones(3).to_sparse(), 0),
        "self": lambda: dist.send(torch.ones(1), dist.get_rank()),
    }
    return {name: error_of(call) for name, call in calls.items()}


@covers(SECTION, "object collectives: `all_gather_object`, `broadcast_object_list`, `gather_object`, ...")
def objects() -> Result:
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "data": "x" * (10 * rank), "values": list(range(rank))}
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, mine)
    listed = [mine, "two"] if rank == 1 else [None, None]
    dist.broadcast_object_list(listed, src=1)
    gathered: list[object] | None = [None] * size if rank == 0 else None
    dist.gather_object(mine, gathered, dst=0)
    scattered: list[object] = [None]
    dist.scatter_object_list(scattered, [mine | {"to": peer} for peer in range(size)] if rank == 2 else None, src=2)
    if rank == 0:
        dist.send_object_list([mine, 7], dst=1)
    received: list[object] = [None, None]
    if rank == 1:
        dist.recv_object_list(received, src=0)
    return {"all": everyone, "list": listed, "gathered": gathered, "scattered": scattered, "received": received}


@covers(SECTION, "functional collectives (`torch.distributed._functional_collectives`) and `torch.distributed.nn`")
def functional() -> Result:
    import torch.distributed._functional_collectives as funcol
    import torch.distributed.nn.functional as differentiable

    size = dist.get_world_size()
    group = dist.group.WORLD
    results: Result = {
        "all_reduce": torch.clone(funcol.all_reduce(numbers(6), "sum", group)),
        "all_gather": torch.clone(funcol.all_gather_tensor(numbers(2, 3), 1, group)),
        "reduce_scatter": torch.clone(funcol.reduce_scatter_tensor(numbers(size * 2), "avg", 0, group)),
        "all_to_all": torch.clone(funcol.all_to_all_single(numbers(size), None, None, group)),
        "broadcast": torch.clone(funcol.broadcast(numbers(3), 1, group)),
        "coalesced": [torch.clone(t) for t in funcol.all_reduce_coalesced([numbers(2), numbers(3)], "sum", group)],
    }
    leaf = numbers(4).requires_grad_()
    differentiable.all_reduce(leaf).pow(2).sum().backward()
    gathered = differentiable.all_gather(leaf)
    (gathered[1] * 3).sum().backward()
    return {**results, "grad": leaf.grad}
