# exercise: lab2/ring-all-reduce
# finding: input-mutated
# hint: input-mutated
# wrong: keeps the tensor of the first call and uses it as scratch space in later calls
import torch
import torch.distributed as dist

scratch: list[torch.Tensor] = []


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    chunks = tensor.tensor_split(world_size)
    scratch.append(tensor)

    def exchange(outgoing: int, incoming: int) -> torch.Tensor:
        size = chunks[incoming].numel()
        fits = scratch[0].dtype == tensor.dtype and scratch[0].numel() >= size and len(scratch) > 1
        arriving = scratch[0][:size] if fits else torch.empty_like(chunks[incoming])
        sending = dist.isend(chunks[outgoing], right)
        dist.recv(arriving, left)
        sending.wait()
        return arriving

    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        chunks[incoming].add_(exchange((rank - step) % world_size, incoming))
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
