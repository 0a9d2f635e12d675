# %% [markdown]
# ## Stretch: the full search, without asking everything (about 40 minutes, 14 points)
#
# Difficulty ●●●○
#
# In exercise 4 somebody gave you a dozen plans. Who made that dozen? Here you search *all* layouts of a model on a
# cluster: every product of data, tensor and pipeline parallelism, every stage of ZeRO, every micro-batch, with and
# without recomputation. The functions that tell memory and time are given, and they count how often you ask: in real
# life each answer may be a run on the cluster. A good search asks for a fraction, and still proves that nothing better
# exists.

# %% tags=["setup"]
from autograder.checks.lab1.search_job import Job
from simulator.planner import Layout, Transformer

# %% [markdown]
# ### Your task
#
# **`layouts(model, gpus, batch, gpus_per_node)`**: all layouts, in any order, each once, as
# `Layout(dp, tp, pp, zero=..., micro_batch=..., accumulation=..., recompute=..., sequence_parallel=tp > 1)`:
#
# - `dp * tp * pp == gpus`, all GPUs are used; `dp * micro_batch * accumulation == batch`, exactly.
# - `tp` is 1, 2, 4 or 8, at most `gpus_per_node`, and divides `model.heads` and `model.d_ffn`. `pp` divides
#   `model.layers`.
# - `micro_batch` is a power of two. `recompute` is `"none"` or `"full"`.
# - `zero` is 0 where `dp` is 1; 0 or 1 in a pipeline (`pp > 1`); else 0 to 3.
#
# **`search(job)`**: the layout with the shortest step of those that need at most `job.room` bytes. A job has `model`,
# `gpus`, `batch`, `gpus_per_node`, `room`, `deadline` (seconds a step), and three functions of a layout:
#
# | | |
# |---|---|
# | `job.memory(layout)` | bytes on the fullest GPU; **counts** |
# | `job.seconds(layout)` | time of a step; **counts** |
# | `job.bound(layout)` | time of computing, recomputing and the bubble alone; never more than `seconds`; free |
#
# Return `{"layout": ..., "seconds": ...}`, or, looked at in this order,
#
# - `{"infeasible": "batch"}` if there is no layout at all,
# - `{"infeasible": "memory", "needs": bytes}` if none fits: the fewest bytes that any layout needs,
# - `{"infeasible": "deadline", "needs": seconds}` if the best that fits is slower than `job.deadline`.
#
# Three facts save questions.
#
# 1. A layout whose `bound` is not below the best time so far cannot win.
# 2. With the same dp, tp and pp, memory never falls when the micro-batch grows, when ZeRO's stage falls, or when
#    recomputation is left out, *except* from two micro-batches a step to one (`accumulation == 1`): then gradients need
#    no place to accumulate. So of a group with the same dp, tp, pp, and `accumulation` 1 or not, one needs the least.
# 3. For the same reason, what is larger than a layout of its group that does not fit does not fit.
#
# About 40 lines for both functions.
#
# ### What is checked
#
# Eight jobs; hidden cases have other models and hardware. Each is asked three times: as it is, with half as much memory
# again, with twice the bandwidth. Nothing is timed. Calls of `memory` and `seconds` are added up, repeated ones too;
# you may make 1.5 times as many as a search that uses the three facts, and 10 more. Asking for everything takes at
# least 1.5 times of that, often 3 to 5 times.
#
# | | points |
# |---|---|
# | the layouts, none missing, none against the rules | 3 |
# | whether a layout is possible; the right reason where none is, and the bytes | 3 |
# | the layout fits, none is faster, and the seconds are right (also those of a missed deadline) | 3 |
# | more memory or bandwidth never makes it slower or impossible | 1 |
# | calls | 4 |


# %%
# exercise: lab1/full-search
def layouts(model: Transformer, gpus: int, batch: int, gpus_per_node: int) -> list[Layout]:
    """Every layout by the rules above."""
    ### BEGIN SOLUTION
    # stub: # Your code: loops over tp, pp, micro-batch, ZeRO's stage and recomputation.
    # stub: raise NotImplementedError("layouts is not written yet")
    from dataclasses import replace

    found = []
    for tp in (1, 2, 4, 8):
        if tp > gpus_per_node or gpus % tp or model.heads % tp or model.d_ffn % tp:
            continue
        for pp in range(1, gpus // tp + 1):
            dp = gpus // tp // pp
            # why: a batch that dp does not divide has no layout, however small the micro-batch.
            if dp * tp * pp != gpus or model.layers % pp or batch % dp:
                continue
            each = batch // dp
            stages = [0] if dp == 1 else [0, 1] if pp > 1 else [0, 1, 2, 3]
            for size in (2**k for k in range(each.bit_length()) if each % 2**k == 0):
                for zero in stages:
                    more = {"zero": zero, "micro_batch": size, "accumulation": each // size}
                    plain = Layout(dp, tp, pp, sequence_parallel=tp > 1, **more)
                    found += [plain, replace(plain, recompute="full")]
    return found
    ### END SOLUTION


def search(job: Job) -> dict:
    """The fastest layout that fits, or what forbids all of them."""
    ### BEGIN SOLUTION
    # stub: # Your code: what cannot fit goes first, then ask in the order of bounds, and stop when no bound is lower.
    # stub: raise NotImplementedError("search is not written yet")
    groups: dict = {}
    for layout in layouts(job.model, job.gpus, job.batch, job.gpus_per_node):
        # why: with one micro-batch a step gradients do not accumulate: its memory is not comparable with others.
        layout_key = layout.dp, layout.tp, layout.pp, layout.accumulation == 1
        groups.setdefault(layout_key, []).append(layout)
    if not groups:
        return {"infeasible": "batch"}

    def size(layout):
        return layout.micro_batch, -layout.zero, layout.recompute == "none"

    # why: one question a group. If its smallest layout does not fit, none of the group does.
    least = {key: job.memory(min(group, key=size)) for key, group in groups.items()}
    left = [layout for key, group in groups.items() if least[key] <= job.room for layout in group]
    if not left:
        return {"infeasible": "memory", "needs": min(least.values())}
    best, seconds, too_large = None, float("inf"), []
    for layout in sorted(left, key=job.bound):
        if job.bound(layout) >= seconds:
            break  # why: all that follow have a higher bound still, so the best is proven
        degrees = layout.dp, layout.tp, layout.pp, layout.accumulation == 1
        if any(d == degrees and all(a >= b for a, b in zip(size(layout), s, strict=True)) for d, s in too_large):
            continue
        if job.memory(layout) > job.room:
            too_large.append((degrees, size(layout)))
        elif (taken := job.seconds(layout)) < seconds:
            best, seconds = layout, taken
    # why: last. "In time" can be judged only when the fastest is known.
    return (
        {"layout": best, "seconds": seconds}
        if seconds <= job.deadline
        else {"infeasible": "deadline", "needs": seconds}
    )
    ### END SOLUTION


# %%
check("lab1/full-search")

# %%
# hint("lab1/full-search")

# %% [markdown]
# A lower bound that costs nothing is what makes a search exact *and* short: the same idea (branch and bound) places
# warehouses and schedules ships. Its quality decides: where communication dominates, computing alone is a weak bound,
# and you had to ask more. What else is known of a layout before it runs, that would make the bound higher?
