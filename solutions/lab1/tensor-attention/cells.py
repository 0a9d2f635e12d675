# %% [markdown]
# ## Stretch: attention with its heads over the ranks (about 30 minutes, 12 points)
#
# Difficulty ●●●○
#
# Exercise 3 cut a feed-forward block. Attention is cut the same way, and has two traps more. Its unit is a *head*, not
# a column; and models with grouped queries (GQA) have fewer key and value heads than query heads, perhaps fewer than
# there are ranks: Llama 2 70B has 64 query heads and 8 of keys and values.
#
# The block is `x + out(attention(qkv(norm(x)))) + bias`. One matrix makes queries, keys and values, with its rows in
# this order (4 query heads, 2 of keys and values; query head h reads key and value head `h // (heads // kv_heads)`):
#
# ```
#         queries            keys      values                          two ranks
# qkv  =  q0  q1  q2  q3  |  k0  k1  |  v0  v1          rank 0: q0 q1 k0 v0      rank 1: q2 q3 k1 v1
# ```
#
# So a rank's rows do *not* lie beside each other: the r-th of equal pieces of `qkv` is not what rank r needs.

# %% tags=["setup"]
from autograder.checks.lab1.block import sum_backward, sum_forward
from autograder.checks.lab1.heads import Weights

# %% [markdown]
# ### Your task
#
# A `Weights` has `norm` and `bias` (`width` elements), `qkv` (rows as above, `width` columns), `out` (`width` rows, a
# column for each element of each query head), the numbers `heads` and `kv_heads`, and `size`, the elements of one head.
#
# - `cut(whole, rank, ranks)`: a `Weights` with what rank `rank` holds: query heads `rank * heads / ranks` and the
#   following, the key and value heads that *these* read, the columns of `out` that belong to them; norm and bias whole.
#   `heads` and `kv_heads` are those of the slice. The ranks divide `heads`. They divide `kv_heads`, or are a multiple
#   of it: then ranks hold copies of the same key and value head. The slices of `qkv` and `out` must have memory of
#   their own: a view of a matrix keeps all of it alive.
# - `attention_block(x, part)`: the block on one rank, with causal attention (a token sees itself and earlier ones). `x`
#   is (sequences, tokens, width) and the same on every rank, and so must the result be, and the gradient of what is
#   whole. `sum_forward` and `sum_backward` are those of exercise 3. `torch.nn.functional` has `layer_norm`, `linear`
#   and `scaled_dot_product_attention`.
#
# About 20 lines together.
#
# ### What is checked
#
# On 2, 3 and 4 real ranks, in FP64, against the whole block on one rank: `kv_heads` equal to `heads`, fewer, and fewer
# than ranks. Where ranks hold copies of a key and value head, each has only the gradient of its own queries: the check
# adds the copies' gradients up. A trainer has to do that, too, with one more all-reduce among the ranks that share the
# head, once a step and outside of the block.
#
# | | points |
# |---|---|
# | rows of `qkv`, columns of `out`, and no more memory than these | 3 |
# | the block's output on every rank | 3 |
# | the gradients of x, norm, qkv, out and bias | 4 |
# | exactly one all-reduce forward and one backward, each sequences x tokens x width x 8 bytes | 2 |


# %%
# exercise: lab1/tensor-attention
def cut(whole: Weights, rank: int, ranks: int) -> Weights:
    """What rank `rank` of `ranks` holds of the block's weights."""
    ### BEGIN SOLUTION
    # stub: # Your code: this rank's rows of the queries, keys and values, and its columns of out.
    # stub: raise NotImplementedError("cut is not written yet")
    size, heads = whole.size, whole.heads // ranks
    # why: with fewer key and value heads than ranks, neighbours hold copies of the same one.
    kv_heads, first = max(1, whole.kv_heads // ranks), rank * whole.kv_heads // ranks
    shapes = [whole.heads * size, whole.kv_heads * size, whole.kv_heads * size]
    q, k, v = whole.qkv.split(shapes)
    queries = slice(rank * heads * size, (rank + 1) * heads * size)
    keys = slice(first * size, (first + kv_heads) * size)
    # why: cat and clone copy. A slice alone is a view, and the whole matrix would stay in memory behind it.
    return Weights(
        whole.norm,
        torch.cat([q[queries], k[keys], v[keys]]),
        whole.out[:, queries].clone(),
        whole.bias,
        heads,
        kv_heads,
    )
    ### END SOLUTION


def attention_block(x: torch.Tensor, part: Weights) -> torch.Tensor:
    """The attention block on this rank; equal on all ranks."""
    ### BEGIN SOLUTION
    # stub: # Your code: x + out(attention(qkv(norm(x)))) + bias with sum_forward and sum_backward where they belong.
    # stub: raise NotImplementedError("attention_block is not written yet")
    functional = torch.nn.functional
    # why: the gradient of norm(x) is the sum over the heads of all ranks, so it is summed behind the norm.
    normed = sum_backward(functional.layer_norm(x, x.shape[-1:], part.norm))
    heads = functional.linear(normed, part.qkv).unflatten(-1, (-1, part.size)).transpose(1, 2)
    q, k, v = heads.split([part.heads, part.kv_heads, part.kv_heads], dim=1)
    # why: interleaved. Query heads that share a key head are neighbours.
    k, v = (t.repeat_interleave(part.heads // part.kv_heads, dim=1) for t in (k, v))
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    mine = functional.linear(attended.transpose(1, 2).flatten(2), part.out)
    return x + sum_forward(mine) + part.bias
    ### END SOLUTION


# %%
check("lab1/tensor-attention")

# %%
# hint("lab1/tensor-attention")

# %% [markdown]
# Nothing is sent between `qkv` and `out`: heads never talk to each other. That is why tensor parallelism cuts here, and
# why the number of heads limits how far it can go. With GQA the limit for *memory* comes earlier: beyond `kv_heads`
# ranks the keys and values (and the cache of an inference server) are copied, not split.
