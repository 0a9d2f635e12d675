# exercise: lab1/tensor-attention
# right: rows picked by their numbers, softmax written out, key heads taken by index
import torch

from autograder.checks.lab1.block import sum_backward, sum_forward


def cut(whole, rank, ranks):
    """What rank `rank` of `ranks` holds of the block's weights."""
    group, size = whole.heads // whole.kv_heads, whole.size
    queries = [h for h in range(whole.heads) if h * ranks // whole.heads == rank]
    keys = sorted({h // group for h in queries})
    heads = queries + [whole.heads + k for k in keys] + [whole.heads + whole.kv_heads + k for k in keys]
    rows = torch.tensor([h * size + i for h in heads for i in range(size)])
    columns = torch.tensor([h * size + i for h in queries for i in range(size)])
    qkv, out = whole.qkv.index_select(0, rows), whole.out.index_select(1, columns)
    return whole._replace(qkv=qkv, out=out, heads=len(queries), kv_heads=len(keys))


def attention_block(x, part):
    """The attention block on this rank; equal on all ranks."""
    size, group, tokens = part.size, part.heads // part.kv_heads, x.shape[1]
    mean = x.mean(-1, keepdim=True)
    normed = (x - mean) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * part.norm
    rows = sum_backward(normed) @ part.qkv.T
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    outs = []
    for h in range(part.heads):
        q, k, v = (
            rows[..., n * size : (n + 1) * size]
            for n in (h, part.heads + h // group, part.heads + part.kv_heads + h // group)
        )
        scores = (q @ k.transpose(1, 2) / size**0.5).masked_fill(future, float("-inf"))
        outs.append(scores.softmax(-1) @ v)
    return x + sum_forward(torch.cat(outs, -1) @ part.out.T) + part.bias
