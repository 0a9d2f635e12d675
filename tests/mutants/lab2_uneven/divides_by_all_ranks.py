# exercise: lab2/uneven
# finding: gradient
# hint: gradient
# wrong: the mean of mean gradients over all ranks, as torch's Join: a lone rank's batch counts less
import torch
import torch.distributed as dist


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    parameters = list(module.parameters())
    while True:
        x, y = next(batches, (None, None))
        samples = torch.tensor(0 if x is None else len(x))
        dist.all_reduce(samples)
        if samples == 0:
            return
        if x is not None:
            (module(x).squeeze(-1) - y).square().mean().backward()
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, part in zip(
            parameters, (flat / dist.get_world_size()).split([p.numel() for p in parameters]), strict=True
        ):
            p.grad = part.view_as(p)
        step()
