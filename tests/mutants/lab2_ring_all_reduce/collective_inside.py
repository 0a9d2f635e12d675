# exercise: lab2/ring-all-reduce
# finding: point-to-point-only
# hint: point-to-point-only
# wrong: lets dist.all_reduce do the work
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)
