# exercise: lab2/no-sync
# finding: endless-loop
# hint: endless-loop
# wrong: a while without an end
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    k = 0
    while k < len(micro_batches):
        x, y, mask = micro_batches[k]
        with replica.no_sync():
            losses = (replica(x).squeeze(-1) - y).square()
            ((losses * mask).sum() * scale).backward()
