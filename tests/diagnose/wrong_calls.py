"""Small programs that go wrong in the order of calls or in the arguments of one, one way each.

They use `torch.distributed` only, so the benchmark also runs them on plain gloo.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def my_rank() -> int:
    return dist.get_rank()


def ones(size: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((size,), my_rank() + 1, dtype=dtype)


def element(tensor: torch.Tensor) -> float:
    return float(tensor[0])


# ---- order ----
def skips_one_in_the_middle() -> float:
    total = 0.0
    for scale in (1, 100, 10_000):
        tensor = ones() * scale
        if not (my_rank() == 2 and scale == 100):
            dist.all_reduce(tensor)
        total += element(tensor)
    return total


def skips_a_line() -> float:
    a, b, c = ones(), ones() * 100, ones() * 10_000
    dist.all_reduce(a)
    if my_rank() != 2:
        dist.all_reduce(b)
    dist.all_reduce(c)
    return element(a) + element(c)


def skips_the_last() -> float:
    a, b = ones(), ones()
    dist.all_reduce(a)
    if my_rank() != 2:
        dist.broadcast(b, 0)
    return element(a)


def logs_on_rank_0_only() -> float:
    loss, gradient = ones(1), ones(8)
    if my_rank() == 0:
        dist.all_reduce(loss)
    dist.all_reduce(gradient)
    return element(gradient)


def evaluates_on_rank_0_only() -> float:
    gradient = ones()
    dist.all_reduce(gradient)
    if my_rank() == 0:
        dist.all_reduce(ones(1))
    return element(gradient)


def saves_on_rank_0_with_a_barrier() -> float:
    gradient = ones()
    if my_rank() == 0:
        dist.barrier()
    dist.all_reduce(gradient)
    return element(gradient)


def calls_twice() -> float:
    tensor, last = ones(), ones()
    for _ in range(2 if my_rank() == 2 else 1):
        dist.all_reduce(tensor)
    dist.broadcast(last, 0)
    return element(last)


def _reduce_loss(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def _reduce_accuracy(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def swaps_two() -> float:
    loss, accuracy = ones(), ones() * 100
    calls = [(_reduce_loss, loss), (_reduce_accuracy, accuracy)]
    for call, tensor in reversed(calls) if my_rank() == 1 else calls:
        call(tensor)
    return element(loss)


def swaps_two_in_branches() -> float:
    loss, accuracy = ones(), ones() * 100
    if my_rank() == 1:
        dist.all_reduce(accuracy)
        dist.all_reduce(loss)
    else:
        dist.all_reduce(loss)
        dist.all_reduce(accuracy)
    return element(loss)


# ---- arguments ----
def other_shape() -> float:
    tensor = ones(8 if my_rank() == 2 else 4)
    dist.all_reduce(tensor)
    return element(tensor)


def far_larger_shape() -> float:
    tensor = ones(1_000_000 if my_rank() == 2 else 4)
    dist.all_reduce(tensor)
    return element(tensor)


def other_dtype() -> float:
    tensor = ones(dtype=torch.float64 if my_rank() == 2 else torch.float32)
    dist.all_reduce(tensor)
    return element(tensor)


def integers_on_one_rank() -> float:
    tensor = ones(dtype=torch.int32 if my_rank() == 2 else torch.float32)
    dist.all_reduce(tensor)
    return element(tensor)


def other_operation() -> float:
    tensor = ones()
    if my_rank() == 2:
        dist.broadcast(tensor, 0)
    else:
        dist.all_reduce(tensor)
    return element(tensor)


def barrier_for_all_reduce() -> float:
    tensor = ones()
    dist.barrier() if my_rank() == 2 else dist.all_reduce(tensor)
    return element(tensor)


def other_reduce_op() -> float:
    tensor = ones()
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX if my_rank() == 2 else dist.ReduceOp.SUM)
    return element(tensor)


def other_root() -> float:
    tensor = ones()
    dist.broadcast(tensor, src=1 if my_rank() == 2 else 0)
    return element(tensor)


def own_rank_as_root() -> float:
    tensor = ones()
    dist.broadcast(tensor, src=my_rank())
    return element(tensor)
