# exercise: lab2/ring-all-reduce
# finding: value
# hint: value
# wrong: with exactly three ranks one chunk is overwritten where it should be added to
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    chunks = tensor.tensor_split(world_size)

    def exchange(outgoing: int, incoming: int) -> torch.Tensor:
        arriving = torch.empty_like(chunks[incoming])
        sending = dist.isend(chunks[outgoing], right)
        dist.recv(arriving, left)
        sending.wait()
        return arriving

    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        arrived = exchange((rank - step) % world_size, incoming)
        if world_size == 3 and step == 1:
            chunks[incoming].copy_(arrived)
        else:
            chunks[incoming].add_(arrived)
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
