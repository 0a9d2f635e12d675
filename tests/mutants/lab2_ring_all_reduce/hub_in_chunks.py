# exercise: lab2/ring-all-reduce
# finding: hub
# hint: hub
# wrong: cut into chunks, but the last rank still talks to everybody
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    hub = world_size - 1
    chunks = tensor.tensor_split(world_size)
    if rank == hub:
        for peer in range(hub):
            for chunk in chunks:
                arriving = torch.empty_like(chunk)
                dist.recv(arriving, peer)
                chunk += arriving
        for peer in range(hub):
            for chunk in chunks:
                dist.send(chunk, peer)
    else:
        for chunk in chunks:
            dist.send(chunk, hub)
        for chunk in chunks:
            dist.recv(chunk, hub)
