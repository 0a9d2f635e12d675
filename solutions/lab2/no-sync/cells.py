# %% [markdown]
# ## Stretch: accumulate without talking (about 20 minutes, 8 points)
#
# Difficulty ●●●○ · stretch points earn a badge, not a grade
#
# A batch that does not fit into memory is computed in micro-batches, whose gradients add up in `p.grad`. Only the last
# backward of a step needs the all-reduce; DDP's `no_sync()` switches it off for the others. Two things go wrong:
#
# - DDP decides in *forward* whether the coming backward will synchronise. `no_sync()` around backward alone comes too
#   late: the gradients travel every time. (And those who switch DDP's flag by hand there end with different gradients
#   on the ranks, without an error.)
# - Micro-batches of text have different numbers of tokens (the rest is padding). The mean over tokens of each
#   micro-batch, averaged over micro-batches and ranks, gives a token in a short text more weight than one in a long
#   text. Libraries trained with that for years (transformers issue 34191).
#
# ### Your task
#
# Write `accumulate(replica, micro_batches)`. `replica` is a `DistributedDataParallel` module, `micro_batches` a list of
# `(x, y, mask)`; each rank has equally many. The loss of a position is `(replica(x).squeeze(-1) - y).square()`, and it
# counts where `mask` is 1. Afterwards every `p.grad` is the gradient of
#
# **(sum of the losses of all tokens, of all micro-batches, of all ranks) / (number of all these tokens)**
#
# and the gradients have travelled once. A rank cannot know how many tokens the others have: one small all-reduce may
# tell. Remember that DDP averages over ranks. There may be a micro-batch without tokens. About 10 lines.
#
# ### What is checked
#
# On 2, 3 and 4 ranks, with one to four micro-batches.
#
# | | points |
# |---|---|
# | all ranks hold the same gradients, bit for bit | 2 |
# | they are those of the mean over all tokens | 4 |
# | in a step the collectives carry the gradients' bytes once, and at most 64 bytes more | 2 |

# %%
# exercise: lab2/no-sync
def accumulate(replica: torch.nn.Module, micro_batches: list) -> None:
    """Gradients of the mean loss over all tokens of all micro-batches and ranks, with one reduction."""
    ### BEGIN SOLUTION
    # stub: # Your code: count the tokens; all micro-batches but the last under no_sync.
    # stub: raise NotImplementedError("accumulate is not written yet")
    import contextlib

    # why: before the first backward, because each loss has to be divided by the number of all tokens.
    tokens = sum(mask.sum() for _, _, mask in micro_batches)
    dist.all_reduce(tokens)
    # why: DDP divides the sum over ranks by W; the tokens are those of all ranks already.
    scale = dist.get_world_size() / tokens
    for k, (x, y, mask) in enumerate(micro_batches):
        is_last = k == len(micro_batches) - 1
        # why: forward, too, is inside: there DDP decides whether this backward will synchronise.
        with contextlib.nullcontext() if is_last else replica.no_sync():
            losses = (replica(x).squeeze(-1) - y).square()
            ((losses * mask).sum() * scale).backward()
    ### END SOLUTION


# %%
check("lab2/no-sync")

# %%
# hint("lab2/no-sync")
