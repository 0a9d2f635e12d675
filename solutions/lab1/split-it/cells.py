# %% [markdown]
# ## Exercise 3: split a block, split a pipeline (about 20 minutes, 14 points)
#
# Difficulty ●●●○
#
# Two ways to split the model itself. You place the communication in one and the order of work in the other.
#
# **Tensor parallelism** cuts matrices. The feed-forward block of a transformer is
# `x + down(gelu(up(norm(x)))) + bias`. Give each rank some *columns* of `up` and the same *rows* of `down`:
#
# ```
#             up: columns          down: rows
#           rank 0 | rank 1        rank 0        gelu works on each column alone: no message
#  norm(x) [   :   |   :   ] gelu [------] ->    a *part* of the sum on every rank
#                                  rank 1
# ```
#
# Two questions decide where the all-reduces go. *Forward*: after which operation does a rank hold only a part of a sum?
# *Backward*: the gradient of what every rank reads is the sum of what the ranks' slices contribute. After which
# operation, going backward, does a rank hold only a part of that sum?
#
# You get the two halves of the answer as functions (Megatron-LM calls them g and f):
#
# - `sum_forward(t)`: the sum of `t` over the ranks; in backward the gradient passes as it is.
# - `sum_backward(t)`: `t` as it is; in backward the gradient is summed over the ranks.
#
# **A pipeline** cuts the stack of layers into stages, and the batch into micro-batches, so that stages can work at the
# same time. With p stages and m micro-batches the first stage waits p - 1 times for the others, whatever you do: the
# step takes at least `(m + p - 1) x (forward + backward)`. The order in which a stage does its work decides whether you
# reach that, and how many micro-batches' activations lie in its memory: GPipe (all forwards, then all backwards) keeps
# m, **1F1B** keeps no more than the stages that follow it, itself included.
#
# ```
# 1F1B, 3 stages, 4 micro-batches (a backward takes twice as long as a forward)
# stage 0  F0 F1 F2             B0 B0 F3 B1 B1 ...   warm-up of 2, then F and B in turn
# stage 1     F0 F1       B0 B0 F2 B1 B1 ...         warm-up of 1
# stage 2        F0 B0 B0 F1 B1 B1 ...               no warm-up
# ```

# %% tags=["setup"]
from autograder.checks.lab1.block import Block, sum_backward, sum_forward

# %% [markdown]
# ### Your task
#
# - `tensor_parallel(x, part)`: the block on one rank. `part` has `norm` and `bias`, which are whole on every rank, and
#   `up` and `down`, which are this rank's slices; `norm`, `up` and `down` are called like functions. `x` is the same on
#   every rank, and so must the result be, and every gradient of what is whole. 2 to 3 lines.
# - `pipeline_order(stage, stages, micro_batches)`: what this stage does, as a list such as
#   `["F0", "F1", "B0", "F2", "B1", "B2"]`. A given runner executes it: it receives what a forward or backward needs,
#   computes, and sends the result on without waiting. About 6 lines.
#
# A pipeline that hangs leaves nothing to judge and loses all points: let `pipeline_order` return `[]` until the block
# is right.
#
# ### What is checked
#
# Both on real ranks, 2, 3 and 4 of them: the block against the whole block on one rank, in FP64; a small transformer in
# stages against the same on one rank. In the pipeline only a forward (1 virtual ms) and a backward (2 ms) take time.
#
# | | points |
# |---|---|
# | the block's output on every rank | 2 |
# | the gradients of x, norm, up, down and bias | 3 |
# | exactly one all-reduce forward and one backward | 1 |
# | every stage's order holds each forward and backward once | 2 |
# | the pipeline's loss and gradients | 1 |
# | the step takes (m + p - 1) x 3 ms | 3 |
# | stage s keeps at most min(p - s, m) micro-batches' activations | 2 |


# %%
# exercise: lab1/split-it
def tensor_parallel(x: torch.Tensor, part: Block) -> torch.Tensor:
    """The feed-forward block on this rank; equal on all ranks."""
    ### BEGIN SOLUTION
    # stub: # Your code: x + down(gelu(up(norm(x)))) + bias with sum_forward and sum_backward where they belong.
    # stub: raise NotImplementedError("tensor_parallel is not written yet")
    # why: behind the norm, not before it: each slice sends a part of the gradient back into norm(x), and norm's own
    # weight needs the whole.
    inside = torch.nn.functional.gelu(part.up(sum_backward(part.norm(x))))
    # why: the bias outside. Inside the sum it would be added once for every rank.
    return x + sum_forward(part.down(inside)) + part.bias
    ### END SOLUTION


def pipeline_order(stage: int, stages: int, micro_batches: int) -> list[str]:
    """The order of a stage's forwards and backwards under 1F1B."""
    ### BEGIN SOLUTION
    # stub: # Your code: warm-up forwards, then one forward and one backward in turn, then the backwards that are left.
    # stub: raise NotImplementedError("pipeline_order is not written yet")
    # why: so many forwards are on their way before the first gradient can be back. With few micro-batches, all of them.
    ahead = min(stages - 1 - stage, micro_batches)
    order = [f"F{k}" for k in range(ahead)]
    for k in range(micro_batches):
        if ahead + k < micro_batches:
            order.append(f"F{ahead + k}")
        order.append(f"B{k}")
    return order
    ### END SOLUTION


# %%
check("lab1/split-it")

# %%
# hint("lab1/split-it")

# %% [markdown]
# With 4 stages and 4 micro-batches, which share of the step does a stage wait? And how many micro-batches bring that
# below 10 %? Commit to the second.

# %%
predict("lab1/bubble-below-ten", None, "micro-batches")

# %%
reveal("lab1/bubble-below-ten", next(m for m in range(1, 100) if 3 / (m + 3) < 0.1))

# %% [markdown]
# The bubble is (p - 1) of (m + p - 1): 43 % with m = 4. It is *not* (p - 1)/m, though that is how it is often written:
# that is the bubble over the useful time. More micro-batches cure it only as long as the global batch can be cut.
