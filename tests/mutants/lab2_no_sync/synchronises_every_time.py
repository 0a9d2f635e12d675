# exercise: lab2/no-sync
# finding: traffic
# hint: traffic
# wrong: no no_sync: right, and the gradients travel for each micro-batch
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    import contextlib

    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    for _, (x, y, mask) in enumerate(micro_batches):
        with contextlib.nullcontext():
            losses = (replica(x).squeeze(-1) - y).square()
            ((losses * mask).sum() * scale).backward()
