"""Saves a checkpoint at every step and goes on from the last one when torchrun starts it again."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer_model import batch, make_model

STEPS = 4


def save(path, **state):
    torch.save(state, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main(path):
    dist.init_process_group("gloo")
    rank, again = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if path.exists():
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, STEPS):
        inputs, targets = batch(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        if (step, rank, again) == (2, 1, "0") and "--die" in sys.argv:
            os.kill(os.getpid(), 9)
        loss.backward()
        optimizer.step()
        if rank == 0:
            save(path, model=model.module.state_dict(), optimizer=optimizer.state_dict(), step=step)
            print(f"incarnation {again} step {step} loss {loss.item():.9f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


main(Path(sys.argv[1]))
