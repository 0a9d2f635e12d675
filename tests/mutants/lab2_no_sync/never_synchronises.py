# exercise: lab2/no-sync
# finding: agreement
# hint: agreement
# wrong: all micro-batches under no_sync
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    for _, (x, y, mask) in enumerate(micro_batches):
        with replica.no_sync():
            losses = (replica(x).squeeze(-1) - y).square()
            ((losses * mask).sum() * scale).backward()
