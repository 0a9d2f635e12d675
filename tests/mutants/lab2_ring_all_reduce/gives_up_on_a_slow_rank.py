# exercise: lab2/ring-all-reduce
# finding: slow-rank
# hint: slow-rank
# wrong: looks a hundred times whether the chunk has arrived and then gives up
import torch
import torch.distributed as dist

import simulator


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    chunks = tensor.tensor_split(world_size)

    def exchange(outgoing: int, incoming: int) -> torch.Tensor:
        arriving = torch.empty_like(chunks[incoming])
        sending, receiving = dist.isend(chunks[outgoing], right), dist.irecv(arriving, left)
        for _ in range(100):
            if receiving.is_completed():
                break
            simulator.compute(1e-6)
        else:
            raise TimeoutError("the left neighbour is too slow")
        receiving.wait()
        sending.wait()
        return arriving

    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        chunks[incoming].add_(exchange((rank - step) % world_size, incoming))
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
