# exercise: lab2/ring-all-reduce
# finding: agreement
# hint: agreement
# wrong: each rank adds up the last n % W elements in another order: the last bits differ
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    size = tensor.numel() // world_size
    chunks = [tensor[i * size : (i + 1) * size] for i in range(world_size)]
    rest = tensor[world_size * size :]

    def exchange(outgoing: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        arriving = torch.empty_like(like)
        sending = dist.isend(outgoing, right)
        dist.recv(arriving, left)
        sending.wait()
        return arriving

    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        chunks[incoming].add_(exchange(chunks[(rank - step) % world_size], chunks[incoming]))
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange(chunks[(rank + 1 - step) % world_size], chunks[incoming]))

    passing = rest.clone()
    for _ in range(world_size - 1):  # each rank starts with its own numbers and adds the others as they come by
        passing = exchange(passing, rest)
        rest += passing
