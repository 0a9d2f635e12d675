"""Programs whose traces differ from run to run, and ones that hang."""

import os

import torch
import torch.distributed as dist

import simulator


def sums_named_gradients() -> None:
    """One all_reduce for each name, in the order of a set."""
    sizes = {"embedding": 3, "attention": 5, "mlp": 7, "norm": 2, "head": 11}
    for name in set(sizes):
        dist.all_reduce(torch.ones(sizes[name]))


def sums_named_gradients_sorted() -> None:
    sizes = {"embedding": 3, "attention": 5, "mlp": 7, "norm": 2, "head": 11}
    for name in sorted(sizes):
        dist.all_reduce(torch.ones(sizes[name]))


def computes_for_a_random_time() -> None:
    for _ in simulator.steps(2):
        if dist.get_rank() == 1:
            simulator.compute(1e-6 * (1 + int.from_bytes(os.urandom(4), "big")))
        dist.all_reduce(torch.ones(1))


def train_with_group() -> None:
    group = dist.new_group([0, 2], group_desc="pair")
    tensor = torch.ones(4)
    for _ in simulator.steps(2):
        simulator.compute(1e-3)
        work = dist.all_reduce(tensor, async_op=True)
        simulator.compute(5e-4)
        work.wait()
        if dist.get_rank() in (0, 2):
            dist.all_reduce(torch.ones(2), group=group)
    whole = torch.empty(4 * dist.get_world_size())
    dist.all_gather_into_tensor(whole, tensor)
    dist.reduce_scatter_tensor(tensor, whole)
    dist.all_to_all_single(torch.empty(dist.get_world_size()), torch.ones(dist.get_world_size()))
    dist.barrier()


def passes_around() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in simulator.steps(2):
        simulator.compute(1e-6)
        work = dist.isend(torch.ones(1000), (rank + 1) % size)
        dist.recv(torch.empty(1000))  # from any rank
        work.wait()


def leaves_out_rank_2() -> None:
    tensor = torch.ones(4)
    for step in simulator.steps(3):
        simulator.compute(1e-3)
        if step < 2 or dist.get_rank() != 2:
            dist.all_reduce(tensor)
