# exercise: lab1/ring-attention
# finding: overlap
# hint: overlap
# wrong: waits for the messages before it computes
import torch
import torch.distributed as dist


def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """This rank's rows of the attention over the whole sequence."""
    rank, ranks, tokens = dist.get_rank(), dist.get_world_size(), q.shape[1]
    block = torch.stack([k, v])
    most = torch.full_like(q[..., :1], float("-inf"))
    total, out = torch.zeros_like(most), torch.zeros_like(q)
    for step in range(ranks):
        handles = []
        if step < ranks - 1:
            arriving = torch.empty_like(block)
            handles = [dist.isend(block, (rank + 1) % ranks), dist.irecv(arriving, (rank - 1) % ranks)]
        now = block
        for handle in handles:
            handle.wait()
        source = (rank - step) % ranks
        if not causal or source <= rank:  # why: all of a later rank's keys are masked
            scores = q @ now[0].transpose(1, 2) / q.shape[-1] ** 0.5
            if causal and source == rank:
                scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), float("-inf"))
            larger = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, shrink = (scores - larger).exp(), (most - larger).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out, most = out * shrink + weights @ now[1], larger
        block = arriving if handles else block
    return out / total
