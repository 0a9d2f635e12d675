# exercise: lab2/ring-all-reduce
# right: both directions asynchronous, with one buffer used again in every step
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    total = tensor.clone()
    chunks = total.tensor_split(world_size)

    def exchange(outgoing: int, incoming: int) -> torch.Tensor:
        arriving = torch.empty_like(chunks[incoming])
        receiving = dist.irecv(arriving, left)
        sending = dist.isend(chunks[outgoing], right)
        receiving.wait()
        sending.wait()
        return arriving

    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        chunks[incoming].add_(exchange((rank - step) % world_size, incoming))
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
    return total
