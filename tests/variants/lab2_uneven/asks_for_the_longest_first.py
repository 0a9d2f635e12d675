# exercise: lab2/uneven
# right: the number of rounds is known before the first; one all-reduce a parameter
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    mine = list(batches)
    rounds = torch.tensor([len(mine)])
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    counts = torch.zeros(int(rounds), dtype=torch.int64)
    for k, (x, _) in enumerate(mine):
        counts[k] = len(x)
    dist.all_reduce(counts)
    for k in range(int(rounds)):
        if k < len(mine):
            x, y = mine[k]
            ((module(x).squeeze(-1) - y).square().sum() / counts[k]).backward()
        for p in module.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
        step()
