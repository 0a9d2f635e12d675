"""Distributed checkpoints, and the data loader that can be resumed."""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.coverage.catalogue import covers
from tests.coverage.programs.models import blocks, local, train

SECTION = "Checkpoints and data"
Result = dict[str, object]


def _trainer(ranks: int | None = None) -> tuple[nn.Module, torch.optim.Optimizer]:
    mesh = init_device_mesh("cpu", (ranks or dist.get_world_size(),))
    model = blocks(2)
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), 1e-2)


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def _restored(folder: str) -> list[torch.Tensor]:
    model, optimizer = _trainer()
    state = _state(model, optimizer)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return local(model)


@covers(SECTION, "`dcp.save` and `dcp.load` of model and optimizer", worlds=(2,), slow=(3, 4), folder=True)
def checkpoint(folder: str) -> Result:
    model, optimizer = _trainer()
    train(model, optimizer, steps=2)
    dcp.save(_state(model, optimizer), checkpoint_id=f"{folder}/step-2")
    files = sorted(os.listdir(f"{folder}/step-2"))
    return {"files": files, "before": local(model), "after": _restored(f"{folder}/step-2")}


@covers(SECTION, "`dcp.load` into another number of shards", worlds=(3,), folder=True)
def reshard(folder: str) -> Result:
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(24.0).view(12, 2)
    dcp.save({"w": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=folder)
    columns = distribute_tensor(torch.zeros(12, 2), mesh, [Shard(1)])
    dcp.load({"w": columns}, checkpoint_id=folder)
    plain = torch.zeros(12, 2)
    dcp.load({"w": plain}, checkpoint_id=folder)
    return {"columns": columns.full_tensor(), "plain": plain}


@covers(
    SECTION,
    "`dcp.async_save` (thread), training while it writes",
    worlds=(2,),
    slow=(3,),
    folder=True,
)
def async_checkpoint(folder: str) -> Result:
    model, optimizer = _trainer()
    train(model, optimizer, steps=2)
    group = dist.new_group(backend="gloo")
    saved = local(model)
    future = dcp.async_save(_state(model, optimizer), checkpoint_id=folder, process_group=group)
    train(model, optimizer, steps=1)
    future.result()
    dist.barrier()
    return {"saved": saved, "loaded": _restored(folder)}


@covers(SECTION, "`DataLoader` with workers, `DistributedSampler`", worlds=(2,))
def data_loader() -> Result:
    from torch.utils.data import DataLoader, DistributedSampler

    data = list(range(23))
    sampler: DistributedSampler[int] = DistributedSampler(data, seed=3)  # type: ignore[arg-type]
    loader = DataLoader(data, batch_size=3, sampler=sampler, num_workers=2)  # type: ignore[arg-type]
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for rows in loader:
            dist.all_reduce(rows)
            seen.append(rows)
    return {"seen": seen}


@covers(SECTION, "torchdata's `StatefulDataLoader` with workers, resumed in the middle", worlds=(2,))
def stateful_loader() -> Result:
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    data = list(range(20))

    def loader() -> Any:
        return StatefulDataLoader(data, batch_size=2, sampler=StatefulDistributedSampler(data, seed=1), num_workers=2)

    first, seen, state = loader(), [], None
    for k, rows in enumerate(first):
        seen.append(rows)
        if k == 1:
            state = first.state_dict()
    second = loader()
    second.load_state_dict(state)
    resumed = list(second)
    dist.all_reduce(resumed[0])
    return {"seen": seen, "resumed": resumed}
