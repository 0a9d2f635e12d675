# exercise: lab2/no-sync
# right: all but the last in one no_sync block
import torch
import torch.distributed as dist


def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens

    def one(x, y, mask):
        ((replica(x).squeeze(-1) - y).square()[mask > 0].sum() * scale).backward()

    with replica.no_sync():
        for batch in micro_batches[:-1]:
            one(*batch)
    one(*micro_batches[-1])
