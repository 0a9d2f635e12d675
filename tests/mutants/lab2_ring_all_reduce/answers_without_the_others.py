# exercise: lab2/ring-all-reduce
# finding: value
# hint: value
# wrong: guesses: multiplies its own numbers by the world size
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * dist.get_world_size()
