# exercise: lab2/ring-all-reduce
# finding: hub
# hint: hub
# wrong: rank 0 receives everything, adds up and sends the sum to everybody
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        arriving = torch.empty_like(tensor)
        for peer in range(1, world_size):
            dist.recv(arriving, peer)
            tensor += arriving
        for peer in range(1, world_size):
            dist.send(tensor, peer)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
