# exercise: lab2/uneven
# right: a rank that is done computes with a batch of no samples
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    x, y = torch.zeros(0, next(module.parameters()).shape[1]), torch.zeros(0)
    nothing = (x, y)
    while True:
        x, y = next(batches, nothing)
        samples = torch.tensor(float(len(x)))
        dist.all_reduce(samples)
        if samples.item() == 0:
            return
        ((module(x).squeeze(-1) - y).square() / samples).sum().backward()
        handles = [dist.all_reduce(p.grad, async_op=True) for p in module.parameters()]
        for handle in handles:
            handle.wait()
        step()
