"""How distributed programs go wrong: one small program for each way, with what a run and its diagnosis must say.

The programs use `torch.distributed` only, so the benchmark also runs them on plain gloo.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

import simulator
from simulator.diagnose import diagnosis as d


def _rank() -> int:
    return dist.get_rank()


def _ones(size: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((size,), _rank() + 1, dtype=dtype)


def _sum(tensor: torch.Tensor) -> float:
    return float(tensor[0])


# ---- order ----
def skips_one_in_the_middle() -> float:
    total = 0.0
    for scale in (1, 100, 10_000):
        tensor = _ones() * scale
        if not (_rank() == 2 and scale == 100):
            dist.all_reduce(tensor)
        total += _sum(tensor)
    return total


def skips_a_line() -> float:
    a, b, c = _ones(), _ones() * 100, _ones() * 10_000
    dist.all_reduce(a)
    if _rank() != 2:
        dist.all_reduce(b)
    dist.all_reduce(c)
    return _sum(a) + _sum(c)


def skips_the_last() -> float:
    a, b = _ones(), _ones()
    dist.all_reduce(a)
    if _rank() != 2:
        dist.broadcast(b, 0)
    return _sum(a)


def logs_on_rank_0_only() -> float:
    loss, gradient = _ones(1), _ones(8)
    if _rank() == 0:
        dist.all_reduce(loss)
    dist.all_reduce(gradient)
    return _sum(gradient)


def evaluates_on_rank_0_only() -> float:
    gradient = _ones()
    dist.all_reduce(gradient)
    if _rank() == 0:
        dist.all_reduce(_ones(1))
    return _sum(gradient)


def saves_on_rank_0_with_a_barrier() -> float:
    gradient = _ones()
    if _rank() == 0:
        dist.barrier()
    dist.all_reduce(gradient)
    return _sum(gradient)


def calls_twice() -> float:
    tensor, last = _ones(), _ones()
    for _ in range(2 if _rank() == 2 else 1):
        dist.all_reduce(tensor)
    dist.broadcast(last, 0)
    return _sum(last)


def _reduce_loss(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def _reduce_accuracy(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def swaps_two() -> float:
    loss, accuracy = _ones(), _ones() * 100
    calls = [(_reduce_loss, loss), (_reduce_accuracy, accuracy)]
    for call, tensor in reversed(calls) if _rank() == 1 else calls:
        call(tensor)
    return _sum(loss)


def swaps_two_in_branches() -> float:
    loss, accuracy = _ones(), _ones() * 100
    if _rank() == 1:
        dist.all_reduce(accuracy)
        dist.all_reduce(loss)
    else:
        dist.all_reduce(loss)
        dist.all_reduce(accuracy)
    return _sum(loss)


# ---- arguments ----
def other_shape() -> float:
    tensor = _ones(8 if _rank() == 2 else 4)
    dist.all_reduce(tensor)
    return _sum(tensor)


def far_larger_shape() -> float:
    tensor = _ones(1_000_000 if _rank() == 2 else 4)
    dist.all_reduce(tensor)
    return _sum(tensor)


def other_dtype() -> float:
    tensor = _ones(dtype=torch.float64 if _rank() == 2 else torch.float32)
    dist.all_reduce(tensor)
    return _sum(tensor)


def integers_on_one_rank() -> float:
    tensor = _ones(dtype=torch.int32 if _rank() == 2 else torch.float32)
    dist.all_reduce(tensor)
    return _sum(tensor)


def other_operation() -> float:
    tensor = _ones()
    if _rank() == 2:
        dist.broadcast(tensor, 0)
    else:
        dist.all_reduce(tensor)
    return _sum(tensor)


def barrier_for_all_reduce() -> float:
    tensor = _ones()
    dist.barrier() if _rank() == 2 else dist.all_reduce(tensor)
    return _sum(tensor)


def other_reduce_op() -> float:
    tensor = _ones()
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX if _rank() == 2 else dist.ReduceOp.SUM)
    return _sum(tensor)


def other_root() -> float:
    tensor = _ones()
    dist.broadcast(tensor, src=1 if _rank() == 2 else 0)
    return _sum(tensor)


def own_rank_as_root() -> float:
    tensor = _ones()
    dist.broadcast(tensor, src=_rank())
    return _sum(tensor)


# ---- groups ----
def other_group() -> float:
    data_parallel = dist.new_group([0, 1, 2])
    tensor = _ones()
    if _rank() < 3:
        dist.all_reduce(tensor, group=dist.group.WORLD if _rank() == 2 else data_parallel)
    dist.barrier()
    return _sum(tensor)


def never_makes_the_group() -> float:
    if _rank() != 2:
        dist.new_group([0, 1, 2, 3])
    dist.barrier()
    return 1.0


def groups_in_another_order() -> float:
    first, second = dist.new_group([0, 1, 2, 3]), dist.new_group([0, 1, 2, 3])
    tensor = _ones()
    for group in (second, first) if _rank() == 3 else (first, second):
        _in_group(tensor, group, first)
    return _sum(tensor)


def _in_group(tensor: torch.Tensor, group: dist.ProcessGroup | None, first: dist.ProcessGroup | None) -> None:
    if group is first:
        dist.all_reduce(tensor, group=group)
        return
    dist.broadcast(tensor, 0, group=group)


# ---- messages ----
def everyone_receives_first() -> float:
    tensor = torch.empty(1)
    dist.recv(tensor, (_rank() - 1) % dist.get_world_size())
    dist.send(_ones(1), (_rank() + 1) % dist.get_world_size())
    return float(tensor)


def everyone_sends_first() -> float:
    tensor = torch.empty(1_000_000)
    dist.send(_ones(1_000_000), (_rank() + 1) % dist.get_world_size())
    dist.recv(tensor, (_rank() - 1) % dist.get_world_size())
    return 1.0


def receives_while_others_reduce() -> float:
    tensor = _ones()
    dist.recv(tensor, 1) if _rank() == 0 else dist.all_reduce(tensor)
    return _sum(tensor)


def other_tag() -> float:
    tensor = _ones(1)
    if _rank() == 0:
        dist.send(tensor, 1, tag=7)
    elif _rank() == 1:
        dist.recv(tensor, 0, tag=8)
    return float(tensor)


def message_of_another_size() -> float:
    if _rank() == 0:
        dist.send(_ones(8), 1)
    elif _rank() == 1:
        dist.recv(_ones(4), 0)
    return 1.0


# ---- loops and models ----
def fewer_batches() -> float:
    tensor = _ones()
    for _ in simulator.steps(2 if _rank() == 1 else 3):
        dist.all_reduce(tensor)
    return _sum(tensor)


def _ddp(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    wrapped = nn.parallel.DistributedDataParallel(model)
    return wrapped, torch.optim.SGD(wrapped.parameters(), 0.01)


def fewer_batches_under_ddp() -> float:
    model, optimizer = _ddp(nn.Linear(4, 4))
    for _ in range(2 if _rank() == 1 else 3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return 1.0


def no_sync_on_one_rank() -> float:
    model, optimizer = _ddp(nn.Linear(4, 4))
    for step in range(3):
        model.require_backward_grad_sync = not (_rank() == 2 and step == 1)  # what no_sync() sets
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return 1.0


def extra_forward_with_batch_norm() -> float:
    model, optimizer = _ddp(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for step in range(2):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        if _rank() == 0 and step == 0:
            model(torch.ones(3, 4))
    return 1.0


# ---- ranks ----
def killed() -> float:
    tensor = _ones()
    dist.all_reduce(tensor)
    if _rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(tensor)
    return _sum(tensor)


def raises() -> float:
    tensor = _ones()
    if _rank() == 2:
        raise ValueError("bad batch")
    dist.all_reduce(tensor)
    return _sum(tensor)


def leaves_early() -> float:
    tensor = _ones()
    if _rank() == 2:
        sys.exit(0)
    dist.all_reduce(tensor)
    return _sum(tensor)


def slow() -> float:
    tensor = _ones()
    for _ in simulator.steps(6):
        simulator.compute(3e-3 if _rank() == 2 else 1e-3)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return _sum(tensor)


# ---- legal, though they look odd ----
def broadcasts_in_branches() -> float:
    total = 0.0
    for src in range(dist.get_world_size()):
        if src == _rank():
            mine = _ones()
            dist.broadcast(mine, src)
            total += _sum(mine)
        else:
            theirs = torch.empty(4)
            dist.broadcast(theirs, src)
            total += _sum(theirs)
    return total


def waits_the_other_way_round() -> float:
    tensors = [_ones() for _ in range(3)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works) if _rank() % 2 else works:
        work.wait()
    return _sum(tensors[0])


@dataclass(frozen=True)
class Case:
    """One way to go wrong: `right` is what every rank would return if nothing were wrong (None: not looked at)."""

    program: Callable[[], float]
    outcome: str
    kind: str
    ranks: tuple[int, ...]
    right: float | None = None
    world_size: int = 4

    @property
    def name(self) -> str:
        words = self.program.__name__.replace("_", " ")
        return words if self.world_size == 4 else f"{words}, {self.world_size} ranks"


TIMEOUT, MISMATCH, FAILED, COMPLETED = "CollectiveTimeout", "CollectiveMismatch", "RankFailed", "Completed"
EVERYBODY = (0, 1, 2, 3)

CASES = (
    Case(
        skips_one_in_the_middle, TIMEOUT, d.UNEVEN, (2,), 101_010.0
    ),  # one line in a loop: which one is not to be seen
    Case(skips_a_line, TIMEOUT, d.OMITTED, (2,), 100_010.0),
    Case(skips_the_last, TIMEOUT, d.OMITTED, (2,), 10.0),
    Case(logs_on_rank_0_only, MISMATCH, d.BRANCH, (0,), 10.0),
    Case(logs_on_rank_0_only, MISMATCH, d.OMITTED, (0, 1), None, 2),
    Case(evaluates_on_rank_0_only, TIMEOUT, d.BRANCH, (0,), 10.0),
    Case(saves_on_rank_0_with_a_barrier, MISMATCH, d.BRANCH, (0,), 10.0),
    Case(calls_twice, MISMATCH, d.EXTRA, (2,), 1.0),
    Case(swaps_two, COMPLETED, d.SWAPPED, (1,), 10.0),
    Case(swaps_two, COMPLETED, d.SWAPPED, (0, 1), 3.0, 2),
    Case(swaps_two_in_branches, COMPLETED, d.NONE, (), 10.0),  # found by values only
    Case(other_shape, MISMATCH, d.SHAPE, (2,), 10.0),
    Case(far_larger_shape, MISMATCH, d.SHAPE, (2,), 10.0),
    Case(other_dtype, MISMATCH, d.DTYPE, (2,), 10.0),
    Case(integers_on_one_rank, MISMATCH, d.DTYPE, (2,), 10.0),
    Case(other_operation, MISMATCH, d.OPERATION, (2,), 10.0),
    Case(barrier_for_all_reduce, MISMATCH, d.OPERATION, (2,), 10.0),
    Case(other_reduce_op, MISMATCH, d.REDUCE_OP, (2,), 10.0),
    Case(other_root, MISMATCH, d.ROOT, (2,), 1.0),
    Case(own_rank_as_root, MISMATCH, d.ROOT, EVERYBODY, 1.0),
    Case(other_group, MISMATCH, d.GROUP, (2,)),
    Case(never_makes_the_group, TIMEOUT, d.GROUP, (2,), 1.0),
    Case(groups_in_another_order, TIMEOUT, d.DEADLOCK_GROUPS, (3,)),
    Case(everyone_receives_first, TIMEOUT, d.DEADLOCK_P2P, EVERYBODY),
    Case(everyone_sends_first, TIMEOUT, d.DEADLOCK_P2P, EVERYBODY, 1.0),
    Case(receives_while_others_reduce, TIMEOUT, d.OMITTED, (0,)),
    Case(other_tag, TIMEOUT, d.DEADLOCK_P2P, (0, 1)),
    Case(message_of_another_size, MISMATCH, d.SHAPE, (0, 1), 1.0),
    Case(fewer_batches, TIMEOUT, d.UNEVEN, (1,)),
    Case(fewer_batches_under_ddp, TIMEOUT, d.UNEVEN, (1,), 1.0),
    Case(no_sync_on_one_rank, TIMEOUT, d.OMITTED, (2,), 1.0),
    Case(extra_forward_with_batch_norm, MISMATCH, d.BRANCH, (0,), 1.0),
    Case(killed, FAILED, d.DEAD, (2,)),
    Case(raises, FAILED, d.DEAD, (2,), 10.0),
    Case(leaves_early, FAILED, d.DEAD, (2,), 10.0),
    Case(slow, COMPLETED, d.SLOW, (2,), 2.5),
    Case(broadcasts_in_branches, COMPLETED, d.NONE, (), 10.0),
    Case(broadcasts_in_branches, COMPLETED, d.NONE, (), 3.0, 2),
    Case(waits_the_other_way_round, COMPLETED, d.NONE, (), 10.0),
)
