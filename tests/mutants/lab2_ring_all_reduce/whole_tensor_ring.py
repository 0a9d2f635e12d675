# exercise: lab2/ring-all-reduce
# finding: bytes
# hint: bytes
# wrong: every step passes a whole tensor on: right sums, about W / 2 times too many bytes
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    contributions = [torch.empty_like(tensor) for _ in range(world_size)]
    contributions[rank].copy_(tensor)
    for step in range(world_size - 1):
        sending = dist.isend(contributions[(rank - step) % world_size], right)
        dist.recv(contributions[(rank - step - 1) % world_size], left)
        sending.wait()
    tensor.zero_()
    for contribution in contributions:  # in rank order, so all ranks agree
        tensor += contribution
