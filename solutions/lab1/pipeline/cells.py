# %% [markdown]
# ## Stretch: GPipe and 1F1B from send and recv (about 35 minutes, 10 points)
#
# Difficulty ●●●●
#
# In exercise 3 a given runner carried activations down the pipeline and gradients up. Now write it. Two schedules that
# take the same time and differ in memory, and one trap: a send that waits until somebody receives.
#
# ```
#         stage 0                        stage 1
#         send activations of F1   ->    (would like to) send the gradient of B0  ->  stage 0
#         waits until received           waits until received                        both wait
# ```

# %% tags=["setup"]
from autograder.checks.lab1.stage import Stage

# %% [markdown]
# ### Your task
#
# Write `run_pipeline(stage, schedule, micro_batches)`: it runs this rank's stage on micro-batches 0 to
# `micro_batches - 1` and returns the mean loss on the last rank, `None` elsewhere. `schedule` is `"gpipe"` (all
# forwards, then all backwards) or `"1f1b"`. A `stage` has
#
# - `stage.forward(x, k)`: micro-batch k through this stage. `x` are the activations of the stage before, `None` on the
#   first rank. On the last rank the result is this micro-batch's share of the mean loss (already divided by their
#   number), elsewhere the activations.
# - `stage.backward(out, grad)`: backward from what `forward` returned; `grad` is what the next stage sent, `None` on
#   the last rank. Afterwards `x.grad` is the gradient for the stage before, if `x` required a gradient.
# - `stage.empty()`: a tensor to receive activations or their gradients into.
#
# Use `dist.send`, `dist.recv`, `dist.isend` and `dist.irecv`. About 25 lines.
#
# ### What is checked
#
# 2, 3 and 4 stages, both schedules, fewer micro-batches than stages, too. A forward takes 1 virtual ms, a backward 2.
#
# | | points |
# |---|---|
# | loss and gradients, with messages to neighbours only | 4 |
# | a step takes (m + p - 1) x 3 ms | 3 |
# | GPipe keeps m micro-batches' activations, 1F1B min(p - stage, m) | 3 |


# %%
# exercise: lab1/pipeline
def run_pipeline(stage: Stage, schedule: str, micro_batches: int) -> float | None:
    """One step of this rank's stage; the mean loss on the last rank."""
    ### BEGIN SOLUTION
    # stub: # Your code: what a forward and a backward receive and send, then their order.
    # stub: raise NotImplementedError("run_pipeline is not written yet")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept, sent, total = {}, [], 0.0

    def receive(peer):
        tensor = stage.empty()
        dist.recv(tensor, peer)
        return tensor

    def forward(k):
        x = receive(rank - 1).requires_grad_() if rank else None
        out = stage.forward(x, k)
        kept[k] = x, out
        if rank < last:
            # why: isend. A stage that waited here could not take the gradient that its neighbour is sending.
            sent.append(dist.isend(out.detach(), rank + 1))
            return 0.0
        return float(out.detach())

    def backward(k):
        x, out = kept.pop(k)
        stage.backward(out, receive(rank + 1) if rank < last else None)
        if rank:
            sent.append(dist.isend(x.grad, rank - 1))

    ahead = micro_batches if schedule == "gpipe" else min(last - rank, micro_batches)
    for k in range(ahead):
        total += forward(k)
    for k in range(micro_batches):
        if ahead + k < micro_batches:
            total += forward(ahead + k)
        backward(k)
    for handle in sent:  # why: a tensor may not go before it is delivered
        handle.wait()
    return total if rank == last else None
    ### END SOLUTION


# %%
check("lab1/pipeline")

# %%
# hint("lab1/pipeline")
