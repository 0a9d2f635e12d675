# exercise: lab2/ring-all-reduce
# finding: agreement
# hint: agreement
# wrong: adds the missing part to its own partial sum instead of copying: rounding differs from rank to rank
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
        chunks[incoming].add_(exchange((rank - step) % world_size, incoming))
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].add_(exchange((rank + 1 - step) % world_size, incoming) - chunks[incoming])
