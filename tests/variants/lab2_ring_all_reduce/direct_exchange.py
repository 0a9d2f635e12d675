# exercise: lab2/ring-all-reduce
# right: no ring: chunk i goes straight to rank i, which adds up and sends the sum to all; same bytes
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    chunks = tensor.tensor_split(world_size)
    mine = chunks[rank]
    peers = [peer for peer in range(world_size) if peer != rank]

    handles = [dist.isend(chunks[peer], peer) for peer in peers]
    arriving = [torch.empty_like(mine) for _ in peers]
    for buffer, peer in zip(arriving, peers, strict=True):
        dist.recv(buffer, peer)
    for handle in handles:
        handle.wait()
    for buffer in arriving:
        mine += buffer

    handles = [dist.isend(mine, peer) for peer in peers]
    for peer in peers:
        dist.recv(chunks[peer], peer)
    for handle in handles:
        handle.wait()
