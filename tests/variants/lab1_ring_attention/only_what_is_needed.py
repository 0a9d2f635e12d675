# exercise: lab1/ring-attention
# right: under the mask blocks that nobody needs stay where they are; results of blocks are merged by their logarithms
import torch
import torch.distributed as dist


def part(q, k, v, masked):
    scores = torch.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    if masked:
        seen = torch.tril(torch.ones(scores.shape[-2:], dtype=torch.bool))
        scores = torch.where(seen, scores, -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1, keepdim=True)


def merge(a, b):
    both = torch.logaddexp(a[1], b[1])
    return a[0] * (a[1] - both).exp() + b[0] * (b[1] - both).exp(), both


def ring_attention(q, k, v, causal):
    """This rank's rows of the attention over the whole sequence."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    sends = (rank + 1 if rank < last else 0) if causal else last
    receives = rank if causal else last
    keys, values, result = k, v, None
    for step in range(last + 1):
        posted = []
        if step < receives:
            next_keys, next_values = torch.empty_like(k), torch.empty_like(v)
            posted += [dist.irecv(next_keys, (rank - 1) % (last + 1)), dist.irecv(next_values, (rank - 1) % (last + 1))]
        if step < sends:
            posted += [dist.isend(keys, (rank + 1) % (last + 1)), dist.isend(values, (rank + 1) % (last + 1))]
        if step <= receives:
            new = part(q, keys, values, causal and step == 0)
            result = new if result is None else merge(result, new)
        [handle.wait() for handle in posted]
        if step < receives:
            keys, values = next_keys, next_values
    return result[0]
