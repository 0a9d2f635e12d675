# %% [markdown]
# ## Stretch: ring attention over a split sequence (about 40 minutes, 12 points)
#
# Difficulty ●●●●
#
# Data, tensors and layers can be split; a *sequence*, too. With a million tokens the activations of one sequence do not
# fit on a GPU, whatever is done about weights. **Context parallelism** gives each rank a stretch of the tokens. All of
# the model works on tokens one by one, except attention: there each query needs the keys and values of all others.
#
# **Ring attention** (Liu et al. 2023) sends them round: in step i a rank works on the keys and values that started i
# ranks before it, and passes them on.
#
# ```
#           rank 0      rank 1      rank 2
# step 0    k0 v0       k1 v1       k2 v2        each computes with what it has, while it is already on its way
# step 1    k2 v2       k0 v0       k1 v1        to rank + 1
# step 2    k1 v1       k2 v2       k0 v0
# ```
#
# How can a softmax be computed of which only a part is there? By keeping, for each query, the largest score so far `m`,
# the sum `s` of `exp(score - m)`, and the sum `o` of `exp(score - m) * value`. When a block brings a larger score, `s`
# and `o` are multiplied by `exp(m_old - m_new)` before the block's own sums are added; at the end the result is `o / s`
# (Milakov and Gimelshein 2018: *online softmax*; flash attention does the same inside of one GPU).

# %% [markdown]
# ### Your task
#
# Write `ring_attention(q, k, v, causal)`. `q`, `k` and `v` are (heads, tokens, size), FP64: this rank's stretch of a
# sequence of world size x tokens; rank r has tokens r x tokens and the following. Return this rank's rows of
# softmax(q k^T / sqrt(size)) v over the whole sequence. With `causal` a token sees itself and earlier ones only.
#
# Use `dist.isend` and `dist.irecv` (or `dist.batch_isend_irecv`), to rank + 1 and from rank - 1. Keys and values of a
# block may travel in one message or in two. About 20 lines. Only the forward pass: in a backward pass the gradients of
# a block's keys and values would travel round the ring with it, and come home after one more step.
#
# ### What is checked
#
# On 2, 3, 4 and 8 real ranks, with and without the mask. Computing and sending take virtual time here, about as long
# for a block; a block is 2 x heads x tokens x size x 8 bytes.
#
# - *Bytes*: messages go to the next rank and come from the one before, and every rank sends and receives exactly W - 1
#   blocks. Under the mask you may leave out what nobody needs: then rank r receives exactly r blocks and sends r + 1,
#   the last rank none.
# - *Resident*, on 8 ranks: whenever a rank waits for a message, it holds at most 6 blocks besides its own q, k and v.
#   Everything that it keeps counts, sums too; two blocks and the sums are enough, those of all others are 7.
# - *Overlap*, without the mask: every message is issued before, and waited for after, at least half of a block's
#   computing.
#
# | | points |
# |---|---|
# | the result, on every rank | 4 |
# | the same with scores in the thousands: no overflow, no `nan` | 2 |
# | bytes, as above | 2 |
# | resident, as above | 2 |
# | overlap, as above | 2 |


# %%
# exercise: lab1/ring-attention
def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """This rank's rows of the attention over the whole sequence."""
    ### BEGIN SOLUTION
    # stub: # Your code: pass a block on, work on it meanwhile, then wait for the next one.
    # stub: raise NotImplementedError("ring_attention is not written yet")
    rank, ranks, tokens = dist.get_rank(), dist.get_world_size(), q.shape[1]
    block = torch.stack([k, v])
    most = torch.full_like(q[..., :1], float("-inf"))
    total, out = torch.zeros_like(most), torch.zeros_like(q)
    for step in range(ranks):
        handles = []
        if step < ranks - 1:
            # why: before the computing. The link works while the GPU does, and nobody waits for anybody.
            arriving = torch.empty_like(block)
            handles = [dist.isend(block, (rank + 1) % ranks), dist.irecv(arriving, (rank - 1) % ranks)]
        source = (rank - step) % ranks
        if not causal or source <= rank:  # why: all of a later rank's keys are masked
            scores = q @ block[0].transpose(1, 2) / q.shape[-1] ** 0.5
            if causal and source == rank:
                scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), float("-inf"))
            # why: the rank's own block comes first, so every row has a finite largest score from step 0 on.
            larger = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, shrink = (scores - larger).exp(), (most - larger).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out, most = out * shrink + weights @ block[1], larger
        for handle in handles:
            handle.wait()
        # why: only now. The old block must not go before it is delivered.
        block = arriving if handles else block
    return out / total
    ### END SOLUTION


# %%
check("lab1/ring-attention")

# %%
# hint("lab1/ring-attention")

# %% [markdown]
# Under the mask rank 0 is done after one block and the last rank computes with all: the ring is as slow as its last
# rank. Real trainers therefore give each rank two shorter stretches, one from the beginning and one from the end of the
# sequence ("zigzag"). On 4 ranks there are 16 blocks of scores, half of them masked; then every rank computes with 2
# blocks' worth, where the last one had 3.5 and the first 0.5.
