"""Small programs that go wrong in groups, messages, loops or whole ranks, one way each; and legal ones that look odd.

They use `torch.distributed` only, so the benchmark also runs them on plain gloo.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn

import simulator
from tests.diagnose.wrong_calls import element, my_rank, ones


# ---- groups ----
def other_group() -> float:
    data_parallel = dist.new_group([0, 1, 2])
    tensor = ones()
    if my_rank() < 3:
        dist.all_reduce(tensor, group=dist.group.WORLD if my_rank() == 2 else data_parallel)
    dist.barrier()
    return element(tensor)


def never_makes_the_group() -> float:
    if my_rank() != 2:
        dist.new_group([0, 1, 2, 3])
    dist.barrier()
    return 1.0


def groups_in_another_order() -> float:
    first, second = dist.new_group([0, 1, 2, 3]), dist.new_group([0, 1, 2, 3])
    tensor = ones()
    for group in (second, first) if my_rank() == 3 else (first, second):
        _in_group(tensor, group, first)
    return element(tensor)


def _in_group(tensor: torch.Tensor, group: dist.ProcessGroup | None, first: dist.ProcessGroup | None) -> None:
    if group is first:
        dist.all_reduce(tensor, group=group)
        return
    dist.broadcast(tensor, 0, group=group)


# ---- messages ----
def everyone_receives_first() -> float:
    tensor = torch.empty(1)
    dist.recv(tensor, (my_rank() - 1) % dist.get_world_size())
    dist.send(ones(1), (my_rank() + 1) % dist.get_world_size())
    return float(tensor)


def everyone_sends_first() -> float:
    tensor = torch.empty(1_000_000)
    dist.send(ones(1_000_000), (my_rank() + 1) % dist.get_world_size())
    dist.recv(tensor, (my_rank() - 1) % dist.get_world_size())
    return 1.0


def receives_while_others_reduce() -> float:
    tensor = ones()
    dist.recv(tensor, 1) if my_rank() == 0 else dist.all_reduce(tensor)
    return element(tensor)


def other_tag() -> float:
    tensor = ones(1)
    if my_rank() == 0:
        dist.send(tensor, 1, tag=7)
    elif my_rank() == 1:
        dist.recv(tensor, 0, tag=8)
    return float(tensor)


def message_of_another_size() -> float:
    if my_rank() == 0:
        dist.send(ones(8), 1)
    elif my_rank() == 1:
        dist.recv(ones(4), 0)
    return 1.0


# ---- loops and models ----
def fewer_batches() -> float:
    tensor = ones()
    for _ in simulator.steps(2 if my_rank() == 1 else 3):
        dist.all_reduce(tensor)
    return element(tensor)


def _ddp(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    wrapped = nn.parallel.DistributedDataParallel(model)
    return wrapped, torch.optim.SGD(wrapped.parameters(), 0.01)


def fewer_batches_under_ddp() -> float:
    model, optimizer = _ddp(nn.Linear(4, 4))
    for _ in range(2 if my_rank() == 1 else 3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return 1.0


def no_sync_on_one_rank() -> float:
    model, optimizer = _ddp(nn.Linear(4, 4))
    for step in range(3):
        model.require_backward_grad_sync = not (my_rank() == 2 and step == 1)  # what no_sync() sets
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return 1.0


def extra_forward_with_batch_norm() -> float:
    model, optimizer = _ddp(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for step in range(2):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        if my_rank() == 0 and step == 0:
            model(torch.ones(3, 4))
    return 1.0


# ---- ranks ----
def killed() -> float:
    tensor = ones()
    dist.all_reduce(tensor)
    if my_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(tensor)
    return element(tensor)


def raises() -> float:
    tensor = ones()
    if my_rank() == 2:
        raise ValueError("bad batch")
    dist.all_reduce(tensor)
    return element(tensor)


def leaves_early() -> float:
    tensor = ones()
    if my_rank() == 2:
        sys.exit(0)
    dist.all_reduce(tensor)
    return element(tensor)


def slow() -> float:
    tensor = ones()
    for _ in simulator.steps(6):
        simulator.compute(3e-3 if my_rank() == 2 else 1e-3)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return element(tensor)


# ---- legal, though they look odd ----
def broadcasts_in_branches() -> float:
    total = 0.0
    for src in range(dist.get_world_size()):
        if src == my_rank():
            mine = ones()
            dist.broadcast(mine, src)
            total += element(mine)
        else:
            theirs = torch.empty(4)
            dist.broadcast(theirs, src)
            total += element(theirs)
    return total


def waits_the_other_way_round() -> float:
    tensors = [ones() for _ in range(3)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works) if my_rank() % 2 else works:
        work.wait()
    return element(tensors[0])
