"""fully_shard over a device mesh, and a distributed checkpoint that is loaded again."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from trainer_model import batch, make_model


def build(mesh):
    model = make_model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


if __name__ == "__main__":
    dist.init_process_group(backend="cuda:nccl,cpu:gloo" if torch.cuda.is_available() else None)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    trained = build(mesh)
    optim = torch.optim.AdamW(trained.parameters(), lr=0.01)
    for step in range(3):
        x, y = batch(step, dist.get_rank())
        loss = torch.nn.functional.mse_loss(trained(x), y)
        loss.backward()
        optim.step()
        optim.zero_grad()
    folder = sys.argv[1]
    dcp.save({"model": get_model_state_dict(trained)}, checkpoint_id=folder)
    loaded = build(mesh)
    state = {"model": get_model_state_dict(loaded)}
    dcp.load(state, checkpoint_id=folder)
    total = sum(tensor.full_tensor().double().abs().sum() for tensor in state["model"].values())
    if dist.get_rank() == 0:
        print(f"sum of the weights {total.item():.9f}", flush=True)
    dist.destroy_process_group()
