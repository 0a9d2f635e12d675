# exercise: lab2/no-sync
# finding: deadlock
# hint: deadlock
# wrong: a rank whose last micro-batches are empty never comes to the all-reduce
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    import contextlib

    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    if dist.get_rank() == 0:
        micro_batches = micro_batches[:-1]
    for k, (x, y, mask) in enumerate(micro_batches):
        is_last = k == len(micro_batches) - (dist.get_rank() != 0)
        with contextlib.nullcontext() if is_last else replica.no_sync():
            losses = (replica(x).squeeze(-1) - y).square()
            ((losses * mask).sum() * scale).backward()
