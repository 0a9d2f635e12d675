# exercise: lab2/uneven
# right: one all-reduce a round: the number of samples is the last element
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    parameters = list(module.parameters())
    sizes = [p.numel() for p in parameters] + [1]
    while True:
        batch = next(batches, None)
        flat = torch.zeros(sum(sizes))
        if batch is not None:
            x, y = batch
            losses = (module(x).squeeze(-1) - y).square()
            gradients = torch.autograd.grad(losses.sum(), parameters)
            flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor([float(len(x))])])
        dist.all_reduce(flat)
        *parts, samples = flat.split(sizes)
        if not samples:
            break
        for p, part in zip(parameters, parts, strict=True):
            p.grad = (part / samples).view_as(p)
        step()
