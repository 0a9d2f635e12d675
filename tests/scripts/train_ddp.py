"""DistributedDataParallel with argparse, the backend by what the machine has, and an exit code."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer_model import batch, make_model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--exit-code", type=int, default=0)
    options = parser.parse_args()
    has_gpu = torch.accelerator.is_available() and torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo", init_method="env://")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert (rank, size) == (dist.get_rank(), dist.get_world_size())
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    model = DistributedDataParallel(make_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    for step in range(options.steps):
        inputs, targets = batch(step, rank)
        loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step} loss {mean.item() / size:.9f}", flush=True)
    dist.destroy_process_group()
    return options.exit_code


if __name__ == "__main__":
    sys.exit(main())
