"""Programs that ranks run in the tests: plain torch.distributed, as a student would write them."""

import concurrent.futures
import os
import queue
import sys
import threading

import torch
import torch.distributed as dist
from torch import nn

import simulator


def all_reduce_rank() -> torch.Tensor:
    tensor = torch.full((3,), float(dist.get_rank()))
    dist.all_reduce(tensor)
    return tensor


def three_all_reduces() -> list[float]:
    tensor = torch.ones(3)
    for _ in range(3):
        dist.all_reduce(tensor)
    return tensor.tolist()


def train(num_steps: int = 5) -> float:
    """Compute and all_reduce, with named steps."""
    tensor = torch.ones(4)
    for _ in simulator.steps(num_steps):
        simulator.compute(1e-3)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return float(tensor[0])


def ring_shift() -> float:
    """Pass a number once around the ring with isend and recv."""
    rank, size = dist.get_rank(), dist.get_world_size()
    value = torch.tensor([float(rank)])
    for _ in simulator.steps(size):
        simulator.compute(1e-6)
        arrived = torch.empty(1)
        work = dist.isend(value, (rank + 1) % size)
        dist.recv(arrived, (rank - 1) % size)
        work.wait()
        value = arrived
    return float(value)


def everyone_receives_first() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.recv(torch.empty(1), (rank - 1) % size)
    dist.send(torch.ones(1), (rank + 1) % size)


def everyone_sends_first() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.send(torch.ones(1), (rank + 1) % size)
    dist.recv(torch.empty(1), (rank - 1) % size)


def other_shape_on_rank_2() -> None:
    dist.all_reduce(torch.ones(4 if dist.get_rank() == 2 else 3))


def other_dtype_on_rank_2() -> None:
    dist.all_reduce(torch.ones(3, dtype=torch.float64 if dist.get_rank() == 2 else torch.float32))


def other_reduce_op_on_rank_2() -> None:
    dist.all_reduce(torch.ones(3), op=dist.ReduceOp.MAX if dist.get_rank() == 2 else dist.ReduceOp.SUM)


def other_root_on_rank_2() -> None:
    dist.broadcast(torch.ones(3), src=1 if dist.get_rank() == 2 else 0)


def other_operation_on_rank_2() -> None:
    tensor = torch.ones(3)
    if dist.get_rank() == 2:
        dist.broadcast(tensor, src=0)
    else:
        dist.all_reduce(tensor)


def shapes_without_majority() -> None:
    dist.all_reduce(torch.ones(3 + dist.get_rank() % 2))


def uneven_end() -> None:
    for _ in range(2 if dist.get_rank() == 0 else 3):
        dist.all_reduce(torch.ones(1))


def fails_on_rank_1() -> None:
    if dist.get_rank() == 1:
        raise ValueError("bad data")
    dist.all_reduce(torch.ones(1))


def exits_on_rank_1() -> None:
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(torch.ones(1))


def calls_sys_exit_on_rank_1() -> None:
    if dist.get_rank() == 1:
        sys.exit(0)
    dist.barrier()


def spins_on_rank_1() -> None:
    if dist.get_rank() == 1:
        while True:
            pass
    dist.barrier()


def skips_new_group_on_rank_1() -> None:
    if dist.get_rank() != 1:
        dist.new_group([0, 1])
    dist.barrier()


def survives_a_lost_peer() -> str:
    """Survivors catch the loss and go on in a smaller group."""
    for _ in simulator.steps(3):
        try:
            dist.all_reduce(torch.ones(1))
        except dist.DistBackendError as error:
            return type(error).__name__
    return "nobody was lost"


def receives_from_anyone() -> list[int]:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        buffer = torch.empty(1)
        return [dist.recv(buffer) for _ in range(size - 1)]
    simulator.compute(1e-3 * (size - rank))
    dist.send(torch.ones(1), 0)
    return []


def polls_until_done() -> int:
    simulator.compute(1e-4 * dist.get_rank())
    work = dist.all_reduce(torch.ones(1), async_op=True)
    polls = 0
    while not work.is_completed():
        polls += 1
    work.wait()
    return polls


def adds_in_the_store() -> int:
    simulator.compute(1e-3 * (dist.get_world_size() - dist.get_rank()))
    return dist.distributed_c10d._get_default_store().add("counter", 1)


def subgroups_and_objects() -> tuple[float, list[int]]:
    group = dist.new_group([0, 1])
    tensor = torch.ones(1)
    if dist.get_rank() < 2:
        dist.all_reduce(tensor, group=group)
    ranks: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(ranks, dist.get_rank())
    return float(tensor), ranks


def ddp(num_steps: int = 4) -> list[torch.Tensor]:
    """A small model under DistributedDataParallel with several buckets."""
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(6)])
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    optimizer = torch.optim.AdamW(wrapped.parameters(), 1e-3)
    for _ in range(num_steps):
        simulator.compute(1e-3)
        wrapped(torch.randn(4, 32)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def sum_in_buckets(bucket: int) -> torch.Tensor:
    """The same numbers, reduced in pieces of `bucket` elements."""
    values = torch.randn(1000, generator=torch.Generator().manual_seed(dist.get_rank()))
    for piece in values.split(bucket):
        dist.all_reduce(piece)
    return values


def prints_in_turn() -> None:
    for step in range(2):
        simulator.compute(1e-3 * (1 + dist.get_world_size() - dist.get_rank()))
        print("step", step)
        dist.barrier()


def prints_a_lot() -> None:
    print("x" * 600_000)
    print("y" * 600_000)
    print("z")


def reads_the_keyboard() -> None:
    input("name? ")


def returns_a_function() -> object:
    return lambda: 3


def leaves_a_child() -> int:
    """Start a process in a session of its own, that nobody ends."""
    import subprocess

    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


def draws_random_numbers() -> list[float]:
    import random

    import numpy

    return [random.random(), float(numpy.random.rand()), float(torch.rand(1))]


def seen_arguments(*args: object) -> list[object]:
    return list(args)


def works_in_a_thread() -> tuple[float, float]:
    """A helper thread with compute and collectives of its own, beside the training loop."""
    group = dist.new_group(list(range(dist.get_world_size())))
    sums = []

    def work() -> None:
        simulator.compute(5e-3)
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        sums.append(float(tensor))

    thread = threading.Thread(target=work)
    thread.start()
    train(3)
    thread.join()
    return sums[0], train(1)


def works_in_a_pool() -> list[float]:
    """Three tasks for one worker: they queue, and never look like running while they do."""
    group = dist.new_group(list(range(dist.get_world_size())))

    def work(factor: int) -> float:
        simulator.compute(5e-3)
        tensor = torch.full((1,), float(factor))
        dist.all_reduce(tensor, group=group)
        return float(tensor)

    pool = concurrent.futures.ThreadPoolExecutor(1)
    futures = [pool.submit(work, factor) for factor in range(3)]
    train(3)
    return [future.result() for future in futures]


def produces_and_consumes() -> list[int]:
    """A producer thread, a bounded queue, and collectives in the consumer."""
    items: queue.Queue[int | None] = queue.Queue(2)

    def produce() -> None:
        for item in range(5):
            simulator.compute(1e-3)
            items.put(item)
        items.put(None)

    threading.Thread(target=produce).start()
    consumed = []
    while (item := items.get()) is not None:
        dist.all_reduce(torch.ones(1))
        consumed.append(item)
    return consumed


def hangs_in_a_helper_thread() -> None:
    group = dist.new_group(list(range(dist.get_world_size())))

    def work() -> None:
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(1), group=group)

    concurrent.futures.ThreadPoolExecutor(1).submit(work).result()
    dist.barrier()


def saves_asynchronously(folder: str) -> float:
    """DCP's async_save beside training, then a load of what it wrote. The path that travels in DCP's object collectives
    is a relative one: their size, and so the digest, does not depend on the folder. The saving thread has a group, as
    it needs with any backend: in one group with training, the machine decides which of the two calls first.
    """
    from torch.distributed import checkpoint

    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    state = {"weight": torch.full((4,), 1.0 + dist.get_rank())}
    future = checkpoint.async_save(state, checkpoint_id="checkpoint", process_group=dist.new_group())
    train(3)
    future.result()
    dist.barrier()
    loaded = {"weight": torch.zeros(4)}
    checkpoint.load(loaded, checkpoint_id="checkpoint")
    return float(loaded["weight"].sum())


def fsdp2(num_steps: int = 2) -> float:
    """A small model with every layer sharded."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(3)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(num_steps):
        loss = model(torch.randn(4, 16)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return float(loss)


def pipeline() -> float:
    """One 1F1B step: a layer a rank, one more micro-batch than ranks."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    stage = PipelineStage(nn.Linear(8, 8), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=size + 1, loss_fn=lambda out, target: (out - target).pow(2).mean())
    batch = torch.ones(size + 1, 8)
    losses: list[torch.Tensor] = []
    if rank == 0:
        schedule.step(batch)
    elif rank == size - 1:
        schedule.step(target=batch, losses=losses)
    else:
        schedule.step()
    return float(sum(losses)) if losses else 0.0
