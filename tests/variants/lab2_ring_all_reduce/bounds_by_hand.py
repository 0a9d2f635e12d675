# exercise: lab2/ring-all-reduce
# right: slices with computed bounds, one receive buffer, empty chunks are not sent, the ring turns left
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    to, source = (rank - 1) % world_size, (rank + 1) % world_size
    n = tensor.numel()

    def part(index: int) -> torch.Tensor:
        index %= world_size
        return tensor[n * index // world_size : n * (index + 1) // world_size]

    buffer = torch.empty(-(-n // world_size), dtype=tensor.dtype)
    for step in range(2 * (world_size - 1)):
        outgoing, incoming = part(rank + step), part(rank + step + 1)
        arriving = buffer[: incoming.numel()]
        handles = []
        if outgoing.numel() > 0:
            handles.append(dist.isend(outgoing, to))
        if incoming.numel() > 0:
            handles.append(dist.irecv(arriving, source))
        for handle in handles:
            handle.wait()
        if step < world_size - 1:
            incoming += arriving
        else:
            incoming.copy_(arriving)
