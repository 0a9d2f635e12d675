# exercise: lab2/uneven
# finding: deadlock
# hint: deadlock
# wrong: loops over its own batches, like a script for one GPU under DDP
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    parameters = list(module.parameters())
    for x, y in batches:
        samples = torch.tensor(len(x))
        dist.all_reduce(samples)
        (module(x).squeeze(-1) - y).square().sum().backward()
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, part in zip(parameters, (flat / samples).split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        step()
