# exercise: lab2/uneven
# finding: forbidden
# hint: none
# wrong: DistributedDataParallel with Join
import torch


def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    from torch.distributed.algorithms.join import Join

    replica = torch.nn.parallel.DistributedDataParallel(module)
    with Join([replica]):
        for x, y in batches:
            (replica(x).squeeze(-1) - y).square().mean().backward()
            step()
