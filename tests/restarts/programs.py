"""Jobs that survive restarts: they save to a folder and resume from it."""

import os
import signal

import torch
import torch.distributed as dist
from torch import nn

import simulator


def counts(folder: str, num_steps: int = 6, every: int = 2) -> list[object]:
    """Steps of 1 virtual ms, saved after `every` of them; what the last incarnation knows of itself."""
    path = os.path.join(folder, "step.pt")
    first = torch.load(path)["next"] if os.path.exists(path) else 0
    for step in simulator.steps(range(first, num_steps)):
        simulator.compute(1e-3)
        dist.all_reduce(torch.ones(4))
        if (step + 1) % every == 0 and dist.get_rank() == 0:
            torch.save({"next": step + 1}, path + ".tmp")
            os.replace(path + ".tmp", path)
    names = ("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "WORLD_SIZE", "RANK")
    return [first, dist.get_world_size(), *(int(os.environ[name]) for name in names)]


def goes_on_alone() -> list[int]:
    """Catches the loss of a peer and continues, which an agent does not allow."""
    signal.signal(signal.SIGTERM, lambda *_: print(f"rank {dist.get_rank()} heard SIGTERM", flush=True))
    for step in simulator.steps(3):
        simulator.compute(1.0)
        try:
            dist.barrier()
        except simulator.PeerLost:
            print(f"rank {dist.get_rank()} lost a peer at step {step}", flush=True)
    return [dist.get_world_size()]


def trains(folder: str, num_steps: int = 5) -> list[torch.Tensor]:
    """DDP with Adam on data that depends on the step and the rank only. Everything is saved after every step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-2)
    path, first = os.path.join(folder, "all.pt"), 0
    if os.path.exists(path):
        state = torch.load(path)
        first = state["next"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in simulator.steps(range(first, num_steps)):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        inputs = torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        (ddp(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "next": step + 1}
            torch.save(state, path + ".tmp")
            os.replace(path + ".tmp", path)
        dist.barrier()
    return [parameter.detach() for parameter in model.parameters()]
