"""Layers whose compute is charged by hand, so that a critical path can be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import simulator
from simulator.cluster import NO_GPU, Cluster, Link

#: One microsecond a step, one byte a nanosecond, operators for nothing: sums that can be done in the head.
EASY = Cluster("easy", 8, intra=Link(1.0, 1.0), inter=Link(10.0, 0.1), gpu=NO_GPU)
US = 1000  # nanoseconds


def busy(x: Any, forward_us: float, backward_us: float) -> Any:
    """The identity, with virtual compute in forward and in backward."""
    import torch

    class Busy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            simulator.compute(forward_us * 1e-6)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            simulator.compute(backward_us * 1e-6)
            return grad.clone()

    return Busy.apply(x)


def stack(num_floats: Sequence[int], forward_us: float, backward_us: float, *, synchronize: bool = False) -> Any:
    """A model of layers with `num_floats[i]` parameters each; the backward of a layer is charged before its gradient
    is ready. With `synchronize` the host waits for the compute stream after every layer, as `item()` makes it.
    """
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = busy(x * self.weight.mean(), forward_us, backward_us)
            if synchronize:
                torch.cpu.synchronize()
            return y

    return nn.Sequential(*map(Layer, num_floats))


def ddp(num_floats: Sequence[int], forward_us: float, backward_us: float) -> None:
    """Three DDP steps, a bucket for each parameter."""
    import torch

    model = torch.nn.parallel.DistributedDataParallel(stack(num_floats, forward_us, backward_us), bucket_cap_mb=1e-6)
    for _ in simulator.steps(3):
        model(torch.ones(4)).sum().backward()


def fsdp(num_floats: Sequence[int], forward_us: float, backward_us: float) -> None:
    """Two FSDP2 steps, every layer a group; the root has no parameters of its own."""
    import torch
    from torch.distributed.fsdp import fully_shard

    model = stack(num_floats, forward_us, backward_us)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for _ in simulator.steps(2):
        model(torch.ones(4, requires_grad=True)).sum().backward()


def fsdp_forward(num_floats: Sequence[int], forward_us: float, depth: int) -> None:
    """One forward of FSDP2 in which the host waits for every layer; the next `depth` layers are prefetched."""
    import torch
    from torch.distributed.fsdp import fully_shard

    model = stack(num_floats, forward_us, 0, synchronize=True)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    layers: Any = list(model)
    for i, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[i + 1 : i + 1 + depth])
    with torch.no_grad():
        model(torch.ones(4))


def one_f_one_b(num_microbatches: int, forward_us: float, backward_us: float, width: int) -> None:
    """Two steps of torch's Schedule1F1B, one stage a rank; activations have `width` floats."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    class Stage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return busy(x * self.weight, forward_us, backward_us)

    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(Stage(), rank, size, torch.device("cpu"), input_args=(torch.ones(1, width),))
    schedule = Schedule1F1B(stage, num_microbatches, loss_fn=lambda y, target: (y - target).sum())
    for _ in simulator.steps(2):  # in the first one the stages also tell each other their shapes
        if rank == 0:
            schedule.step(torch.ones(num_microbatches, width))
        else:
            schedule.step(target=torch.zeros(num_microbatches, width))


def tensor_parallel(num_blocks: int, forward_us: float, backward_us: float, width: int) -> None:
    """Blocks of a column-wise and a row-wise linear layer, by torch's parallelize_module; batch 1."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(busy(self.up(x), forward_us, backward_us))

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*(Block() for _ in range(num_blocks)))
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    for _ in simulator.steps(2):
        model(torch.ones(1, width, requires_grad=True)).sum().backward()
