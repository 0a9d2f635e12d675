# exercise: lab1/tensor-attention
# right: slices through views of (head, size); queries that share a key head as a dimension of their own
import torch
import torch.nn.functional as F

from autograder.checks.lab1.block import sum_backward, sum_forward
from autograder.checks.lab1.heads import Weights


def cut(whole, rank, ranks):
    """What rank `rank` of `ranks` holds of the block's weights."""
    rows = whole.qkv.view(-1, whole.size, whole.qkv.shape[1])
    heads = whole.heads // ranks
    begin = rank * heads
    group = whole.heads // whole.kv_heads
    low, high = begin // group, (begin + heads - 1) // group + 1
    keys = rows[whole.heads : whole.heads + whole.kv_heads][low:high]
    values = rows[whole.heads + whole.kv_heads :][low:high]
    qkv = torch.vstack([rows[begin : begin + heads].flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1)])
    out = whole.out.view(whole.out.shape[0], -1, whole.size)[:, begin : begin + heads].flatten(1).contiguous()
    out = out if out.untyped_storage().nbytes() == out.numel() * out.element_size() else out.clone()
    return Weights(whole.norm.clone(), qkv, out, whole.bias.clone(), heads, high - low)


def attention_block(x, part):
    """The attention block on this rank; equal on all ranks."""
    normed = sum_backward(F.layer_norm(x, (x.shape[-1],), part.norm))
    q, k, v = F.linear(normed, part.qkv).split([n * part.size for n in (part.heads, part.kv_heads, part.kv_heads)], -1)
    q = q.unflatten(-1, (part.kv_heads, -1, part.size))
    k, v = (t.unflatten(-1, (part.kv_heads, part.size)) for t in (k, v))
    scores = torch.einsum("sqkgd,stkd->skgqt", q, k) * part.size**-0.5
    seen = torch.tril(torch.ones(scores.shape[-2:], dtype=torch.bool))
    weights = torch.where(seen, scores, -torch.inf).softmax(-1)
    attended = torch.einsum("skgqt,stkd->sqkgd", weights, v).flatten(2)
    return part.bias + sum_forward(attended @ part.out.mT) + x
