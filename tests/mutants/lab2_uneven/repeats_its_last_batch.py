# exercise: lab2/uneven
# finding: gradient
# hint: gradient
# wrong: fills up with the last batch again and counts it
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    parameters = list(module.parameters())
    mine = list(batches)
    rounds = torch.tensor(len(mine))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    for k in range(int(rounds)):
        x, y = mine[min(k, len(mine) - 1)] if mine else (torch.zeros(0, 6), torch.zeros(0))
        samples = torch.tensor(len(x))
        dist.all_reduce(samples)
        (module(x).squeeze(-1) - y).square().sum().backward()
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, part in zip(parameters, (flat / samples).split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        step()
