"""`reduction="rank_order"`: sums are those of one process that adds the ranks' numbers 0, 1, 2, ...; layouts and
strategies give the same bits. Nothing else changes.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simulator
from simulator import values
from tests.coverage.programs import collectives, handles
from tests.coverage.programs.inputs import FLOATS
from tests.coverage.programs.models import batch, blocks

WORLD_SIZE = 4
SIZE = 1003


def contribution(rank: int, salt: int, *, size: int = SIZE, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(97 * salt + rank)).to(dtype)


def in_rank_order(salt: int, op: str = "SUM", **shape: Any) -> torch.Tensor:
    """What one process gets."""
    parts = [contribution(rank, salt, **shape) for rank in range(WORLD_SIZE)]
    if op == "PRODUCT":
        return functools.reduce(operator.mul, parts)
    total = functools.reduce(operator.add, parts)
    return total / WORLD_SIZE if op == "AVG" else total


def run(program: Callable[..., Any], *args: Any, world_size: int = WORLD_SIZE, **options: Any) -> list[Any]:
    result = simulator.run(program, world_size, args=args, echo=False, **{"reduction": "rank_order", **options})
    assert result.ok, result.outcome.explain()
    return result.results


def same(ours: Any, expected: Any) -> bool:
    return values.encode(ours) == values.encode(expected)


def reductions() -> dict[str, Any]:
    from torch.distributed.distributed_c10d import _coalescing_manager

    rank, size = dist.get_rank(), dist.get_world_size()
    results: dict[str, Any] = {}
    for dtype in FLOATS:
        for op in ("SUM", "AVG", "PRODUCT"):
            tensor = contribution(rank, 0, dtype=dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            results[f"{dtype} {op}"] = tensor
    later = [contribution(rank, salt) for salt in range(3)]
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in later]:
        assert work is not None
        work.wait()
    coalesced = [contribution(rank, salt) for salt in range(3)]
    with _coalescing_manager():
        for tensor in coalesced:
            dist.all_reduce(tensor)
    strided = torch.stack([contribution(rank, 0), contribution(rank, 1)], dim=1)[:, 0]
    dist.all_reduce(strided)
    rooted = contribution(rank, 0)
    dist.reduce(rooted, 2)
    whole = contribution(rank, 0, size=size * 50)
    shard, listed, merged = torch.empty(50), torch.empty(50), torch.empty(50)
    dist.reduce_scatter_tensor(shard, whole)
    dist.reduce_scatter(listed, list(whole.chunk(size)))
    with _coalescing_manager():
        dist.reduce_scatter_tensor(merged, whole)
    uneven = torch.empty(rank + 1)
    dist.reduce_scatter(uneven, [contribution(rank, peer, size=peer + 1) for peer in range(size)])
    return results | {
        "async": later,
        "coalesced": coalesced,
        "strided": strided,
        "rooted": rooted if rank == 2 else None,
        "shards": [shard, listed, merged],
        "uneven": uneven,
    }


def test_every_reduction_is_the_single_process_sum() -> None:
    sums = [in_rank_order(salt) for salt in range(3)]
    shards = in_rank_order(0, size=WORLD_SIZE * 50).chunk(WORLD_SIZE)
    for rank, result in enumerate(run(reductions)):
        for dtype in FLOATS:
            for op in ("SUM", "AVG", "PRODUCT"):
                assert same(result[f"{dtype} {op}"], in_rank_order(0, op, dtype=dtype)), f"{dtype} {op}"
        assert same(result["async"], sums)
        assert same(result["coalesced"], sums)
        assert same(result["strided"], sums[0])
        assert same(result["rooted"], sums[0] if rank == 2 else None)
        assert same(result["shards"], [shards[rank]] * 3)
        assert same(result["uneven"], in_rank_order(rank, size=rank + 1))


def test_stock_sums_are_another_order() -> None:
    """Otherwise the test above shows nothing."""
    assert not same(run(reductions, reduction="stock")[0]["async"], [in_rank_order(salt) for salt in range(3)])


def whole_numbers() -> list[torch.Tensor]:
    tensors = [(contribution(dist.get_rank(), salt) * 100).to(torch.int64) for salt in range(3)]
    dist.all_reduce(tensors[0])
    dist.all_reduce(tensors[1], op=dist.ReduceOp.BXOR)
    extreme = contribution(dist.get_rank(), 5)
    dist.all_reduce(extreme, op=dist.ReduceOp.MIN)
    return [*tensors, extreme]


@pytest.mark.parametrize("program", [whole_numbers, handles.subgroups, collectives.objects])
def test_what_has_no_order_is_unchanged(program: Callable[..., Any]) -> None:
    ours, stock = run(program), run(program, reduction="stock")
    if program is handles.subgroups:  # pairs add two numbers: one order
        ours, stock = ([{k: v for k, v in r.items() if "pair" in k} for r in results] for results in (ours, stock))
    assert same(ours, stock)


STEPS = 3
RATE = 0.1


def ddp(cap_mb: float, **options: Any) -> list[torch.Tensor]:
    model = blocks()
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap_mb, **options)
    optimizer = torch.optim.SGD(wrapped.parameters(), RATE)
    for step in range(STEPS):
        wrapped(batch(step)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach() for p in model.parameters()]


def fsdp2() -> list[torch.Tensor]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = blocks()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for step in range(STEPS):
        model(batch(step)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.reshard()  # type: ignore[operator]
    return [p.full_tensor() for p in model.parameters()]  # type: ignore[attr-defined]


def one_process(world_size: int, *, scale_first: bool) -> list[torch.Tensor]:
    """The same training in one process: gradients of every rank, added in rank order.

    DDP multiplies each gradient by 1/N before it adds; FSDP2 divides the sum (AVG).
    """
    torch.set_num_threads(1)
    model = blocks()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, RATE)
    for step in range(STEPS):
        gradients = []
        for rank in range(world_size):
            rows = torch.randn(4, 16, generator=torch.Generator().manual_seed(100 * step + rank))
            gradients.append(torch.autograd.grad(model(rows).pow(2).mean(), parameters))
        for k, parameter in enumerate(parameters):
            parts = [g[k] * (1 / world_size) if scale_first else g[k] for g in gradients]
            total = functools.reduce(operator.add, parts)
            parameter.grad = total if scale_first else total / world_size
        optimizer.step()
    return [p.detach() for p in parameters]


@pytest.fixture
def single_thread() -> Any:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("world_size", "cap_mb"), [(4, 0.003), (4, 25.0), (3, 0.02)])
def test_ddp_has_the_bits_of_one_process_at_every_bucket_size(
    world_size: int, cap_mb: float, single_thread: None
) -> None:
    expected = one_process(world_size, scale_first=True)
    for weights in run(ddp, cap_mb, world_size=world_size):
        assert same(weights, expected)


@pytest.mark.parametrize("world_size", [3, 4])
def test_fsdp2_has_the_bits_of_one_process(world_size: int, single_thread: None) -> None:
    expected = one_process(world_size, scale_first=False)
    for weights in run(fsdp2, world_size=world_size):
        assert same(weights, expected)
