"""What lab1/tensor-attention gives to the student: the weights of an attention block. Imported in ranks only."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Weights(NamedTuple):
    """Weights of the block `x + out(attention(qkv(norm(x)))) + bias`, whole or one rank's slice of them.

    `qkv` has (heads + 2 * kv_heads) * size rows of `width` columns: first the queries, head by head, then the keys,
    then the values. `out` is (width, heads * size). `norm` and `bias` have `width` elements. Query head h reads key and
    value head h // (heads // kv_heads).
    """

    norm: Tensor
    qkv: Tensor
    out: Tensor
    bias: Tensor
    heads: int
    kv_heads: int

    @property
    def size(self) -> int:
        """Elements of one head."""
        return int(self.qkv.shape[0]) // (self.heads + 2 * self.kv_heads)


def whole_block(x: Tensor, weights: Weights) -> Tensor:
    """The block on one rank: (sequences, tokens, width) to the same shape."""
    heads, kv_heads = weights.heads, weights.kv_heads
    rows = F.linear(F.layer_norm(x, x.shape[-1:], weights.norm), weights.qkv)
    parts = rows.unflatten(-1, (-1, weights.size)).transpose(1, 2)  # type: ignore[no-untyped-call]
    q, k, v = parts.split([heads, kv_heads, kv_heads], dim=1)
    k, v = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (k, v))
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out: Tensor = x + F.linear(attended.transpose(1, 2).flatten(2), weights.out) + weights.bias
    return out
