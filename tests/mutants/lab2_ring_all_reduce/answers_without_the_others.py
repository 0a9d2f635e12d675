# exercise: lab2/ring-all-reduce
# finding: value
# hint: value
# wrong: multiplies its own numbers by the world size and talks to nobody
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    tensor *= dist.get_world_size()
