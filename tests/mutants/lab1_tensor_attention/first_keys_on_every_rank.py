# exercise: lab1/tensor-attention
# finding: slices
# hint: slices
# wrong: every rank takes the first key and value heads
import torch

from autograder.checks.lab1.block import sum_backward, sum_forward
from autograder.checks.lab1.heads import Weights


def cut(whole: Weights, rank: int, ranks: int) -> Weights:
    """What rank `rank` of `ranks` holds of the block's weights."""
    size, heads = whole.size, whole.heads // ranks
    kv_heads = max(1, whole.kv_heads // ranks)
    shapes = [whole.heads * size, whole.kv_heads * size, whole.kv_heads * size]
    q, k, v = whole.qkv.split(shapes)
    queries = slice(rank * heads * size, (rank + 1) * heads * size)
    keys = slice(0, kv_heads * size)
    return Weights(
        whole.norm,
        torch.cat([q[queries], k[keys], v[keys]]),
        whole.out[:, queries].clone(),
        whole.bias,
        heads,
        kv_heads,
    )


def attention_block(x: torch.Tensor, part: Weights) -> torch.Tensor:
    """The attention block on this rank; equal on all ranks."""
    functional = torch.nn.functional
    normed = sum_backward(functional.layer_norm(x, x.shape[-1:], part.norm))
    heads = functional.linear(normed, part.qkv).unflatten(-1, (-1, part.size)).transpose(1, 2)
    q, k, v = heads.split([part.heads, part.kv_heads, part.kv_heads], dim=1)
    k, v = (t.repeat_interleave(part.heads // part.kv_heads, dim=1) for t in (k, v))
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    mine = functional.linear(attended.transpose(1, 2).flatten(2), part.out)
    return x + sum_forward(mine) + part.bias
