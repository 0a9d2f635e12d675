# exercise: lab2/no-sync
# finding: name-only-in-kernel
# hint: name-only-in-kernel
# wrong: the import is in another cell
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    import contextlib

    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    for k, (x, y, mask) in enumerate(micro_batches):
        is_last = k == len(micro_batches) - 1
        with contextlib.nullcontext() if is_last else replica.no_sync():
            losses = loss_of(replica, x, y)  # noqa: F821
            ((losses * mask).sum() * scale).backward()
