# exercise: lab2/ring-all-reduce
# finding: input-mutated
# hint: input-mutated
# wrong: stretches the view to W equal chunks, so the neighbours in the buffer are added up too
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    size = -(-tensor.numel() // world_size)
    room = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    longer = tensor.as_strided((min(size * world_size, room),), (1,))
    chunks = [longer[i * size : (i + 1) * size] for i in range(world_size)]

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
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
