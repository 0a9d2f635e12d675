# exercise: lab2/uneven
# finding: gradient
# hint: gradient
# wrong: a rank without a batch sends its last gradient
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    parameters = list(module.parameters())
    last = [torch.zeros_like(p) for p in parameters]
    while True:
        x, y = next(batches, (None, None))
        samples = torch.tensor(0 if x is None else len(x))
        dist.all_reduce(samples)
        if samples == 0:
            return
        if x is not None:
            (module(x).squeeze(-1) - y).square().sum().backward()
            last = [p.grad for p in parameters]
        flat = torch.cat([g.flatten() for g in last])
        dist.all_reduce(flat)
        for p, part in zip(parameters, (flat / samples).split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        step()
