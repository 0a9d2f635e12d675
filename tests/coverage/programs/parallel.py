"""Tensor, sequence and pipeline parallelism."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from tests.coverage.catalogue import covers
from tests.coverage.programs.models import WIDTH, Block, blocks, local

SECTION = "Tensor and pipeline parallelism"
Result = dict[str, object]
_PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def _same_batch(step: int, rows: int = 4) -> torch.Tensor:
    """The same rows on every rank."""
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(step))


def _train(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for step in range(3):
        loss = model(_same_batch(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.full_tensor() if isinstance(loss, DTensor) else loss))
    return losses


@covers(SECTION, "`parallelize_module` with ColwiseParallel and RowwiseParallel", worlds=(2,), slow=(4,))
def tensor_parallel() -> Result:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = blocks()
    for block in model:
        parallelize_module(block, mesh, dict(_PLAN))
    losses = _train(model, torch.optim.AdamW(model.parameters(), 1e-2, foreach=False))
    return {"losses": losses, "weights": local(model)}


class _Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.norm, self.block = nn.LayerNorm(WIDTH), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.block.down(torch.relu(self.block.up(self.norm(x))))
        return result


@covers(SECTION, "SequenceParallel", worlds=(2,), slow=(4,))
def sequence_parallel() -> Result:
    from torch.distributed.tensor import Replicate

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = _Normed()
    plan = {
        "norm": SequenceParallel(sequence_dim=0),
        "block": PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()),
        "block.up": ColwiseParallel(input_layouts=Shard(0)),
        "block.down": RowwiseParallel(output_layouts=Shard(0)),
    }
    del plan["block"]
    parallelize_module(model, mesh, plan)
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        loss = model(_same_batch(step, rows=8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return {"losses": losses, "weights": local(model)}


@covers(SECTION, "tensor parallelism with FSDP2 on a 2 x 2 mesh", worlds=(4,))
def tensor_parallel_and_fsdp2() -> Result:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = blocks(2)
    for block in model:
        parallelize_module(block, mesh["tensor"], dict(_PLAN))
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    losses = _train(model, torch.optim.AdamW(model.parameters(), 1e-2, foreach=False))
    assert isinstance(model, FSDPModule)
    model.reshard()
    return {"losses": losses, "weights": local(model)}


def _pipeline(name: str) -> Result:
    """One schedule over a pipeline of 2 stages a rank where the schedule wants several, else one."""
    from torch.distributed.pipelining import PipelineStage, schedules

    rank, size = dist.get_rank(), dist.get_world_size()
    schedule_class = getattr(schedules, name)
    is_looped = issubclass(schedule_class, schedules.PipelineScheduleMulti)
    in_v = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    indices = ([rank, 2 * size - 1 - rank] if in_v else [rank, rank + size]) if is_looped else [rank]
    num_stages = size * len(indices)
    model = blocks(num_stages)
    stages = [PipelineStage(model[index], index, num_stages, torch.device("cpu")) for index in indices]
    schedule = schedule_class(
        stages if is_looped else stages[0], 2 * size, loss_fn=lambda out, target: (out - target).pow(2).mean()
    )
    losses: list[Any] = []
    inputs, targets = _same_batch(1, 4 * size), _same_batch(2, 4 * size)
    for _ in range(2):
        kept: list[torch.Tensor] = []
        feeds = (inputs,) if 0 in indices else ()
        last = num_stages - 1 in indices
        schedule.step(*feeds, **({"target": targets, "losses": kept} if last else {}))
        losses += kept
    grads = [p.grad for index in indices for p in model[index].parameters()]
    return {"losses": losses, "grads": grads}


@covers(SECTION, "pipelining: `ScheduleGPipe`, `Schedule1F1B`", worlds=(3,), slow=(2, 4))
def pipeline_single_stage() -> Result:
    return {name: _pipeline(name) for name in ("ScheduleGPipe", "Schedule1F1B")}


@covers(SECTION, "pipelining: `ScheduleInterleaved1F1B`, `ScheduleLoopedBFS`", worlds=(2,), slow=(4,))
def pipeline_looped() -> Result:
    return {name: _pipeline(name) for name in ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS")}


@covers(
    SECTION,
    "pipelining: `ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble`, `ScheduleDualPipeV`",
    worlds=(2,),
    slow=(4,),
)
def pipeline_zero_bubble() -> Result:
    names = ("ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    return {name: _pipeline(name) for name in names}
