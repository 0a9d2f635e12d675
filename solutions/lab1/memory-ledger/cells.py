# %% [markdown]
# ## Exercise 1: what a rank holds, to the byte (about 15 minutes, 10 points)
#
# Difficulty ●●○○
#
# "A 7B model takes 112 GB" is only true under a convention nobody told you. Between two steps a rank holds three kinds
# of state, and what a parameter takes in each is a choice:
#
# | convention | weights | gradients | master copy | Adam's moments | who counts so |
# |---|---|---|---|---|---|
# | `fp32` | 4 | 4 | 0 | 8 | torch's defaults |
# | `8` | 2 | 2 | 0 | 4 | everything in BF16 |
# | `16` | 2 | 2 | 4 | 8 | the ZeRO paper |
# | `18` | 2 | 4 | 4 | 8 | gradients accumulate in FP32, as in Megatron-LM |
#
# The optimizer state is the master copy *and* the moments. **ZeRO splits state over the data-parallel ranks, one kind
# after the other**: stage 1 the optimizer state, stage 2 the gradients too, stage 3 (FSDP) the parameters too. DDP is
# stage 0. What it never splits are activations; and while a layer computes, its weights are whole on every rank.
#
# Two ways to cut:
#
# - Stages 1 and 2 lay all parameters into one flat vector, pad it until the ranks divide it, and every rank holds one
#   equal piece (padding included) of what is split.
# - Stage 3, as torch's `fully_shard` does it, cuts *each parameter* along dimension 0 into pieces of
#   `ceil(rows / ranks)` rows. The last ranks hold what is left: fewer rows, or none. Gradients and optimizer state are
#   cut in the same way.
#
# ### Your task
#
# Write `ledger(shapes, zero, ranks, rank, convention)`: the bytes that `rank` holds between two steps, as a dict with
# the keys `"parameters"`, `"gradients"`, `"optimizer"`. `shapes` is a list such as `[(50, 32), (32,)]`; `convention`
# has the four numbers of the table as `convention.weights`, `.gradients`, `.master`, `.moments`. About 12 lines.
#
# ### What is checked
#
# The check trains such models on real ranks, with `DistributedDataParallel`, `fully_shard`, and ZeRO-1 and 2 written
# out, counts what their tensors hold, and compares it with your ledger: every rank, to the byte. 3 and 4 ranks; hidden
# cases have other shapes, and 2 ranks, too.
#
# | | points |
# |---|---|
# | parameters | 2 |
# | gradients | 2 |
# | optimizer state | 3 |
# | all of it where the ranks do not divide the rows, and where there are fewer rows than ranks | 3 |

# %%
# exercise: lab1/memory-ledger
import math


def ledger(shapes: list[tuple[int, ...]], zero: int, ranks: int, rank: int, convention: Convention) -> dict[str, int]:
    """Bytes that `rank` holds between two steps, by kind."""
    ### BEGIN SOLUTION
    # stub: # Your code: how many elements of each kind lie on this rank, times the bytes of the convention.
    # stub: raise NotImplementedError("ledger is not written yet")
    whole = sum(math.prod(shape) for shape in shapes)
    # why: the flat vector is padded, so every rank holds as much as the first: rounded up, also on the last rank.
    piece = math.ceil(whole / ranks)
    if zero == 3:
        piece = 0
        for rows, *rest in shapes:
            most = math.ceil(rows / ranks)
            # why: not rows / ranks. The first ranks take `most` rows each, the last ones what is left, at least none.
            piece += max(0, min(most, rows - rank * most)) * math.prod(rest)
    return {
        "parameters": (piece if zero >= 3 else whole) * convention.weights,
        "gradients": (piece if zero >= 2 else whole) * convention.gradients,
        # why: the master copy belongs to the optimizer: only it reads it, so it is split with the moments.
        "optimizer": (piece if zero >= 1 else whole) * (convention.master + convention.moments),
    }
    ### END SOLUTION


# %%
check("lab1/memory-ledger")

# %%
# hint("lab1/memory-ledger")

# %% [markdown]
# Now use the idea on the brief's models, without the help of real ranks. 7B parameters, convention `16`, 8 GPUs:
# how many GB (1e9 bytes) of state does each GPU hold under ZeRO-2? And does that leave room in 80 GB?

# %%
predict("lab1/zero2-gigabytes", None, "GB a GPU")

# %%
reveal("lab1/zero2-gigabytes", round(7e9 * (2 + (2 + 12) / 8) / 1e9, 2))
