# %% [markdown]
# # Lab 2: DDP under the hood
#
# **The idea.** Data-parallel training works on replicas that stay identical, and they do so only because every rank
# keeps one contract: the same parameters, the same collectives in the same order, its own part of the data, the mean of
# all gradients. DDP hides the contract; here you build each part of it, and see what breaks when it is not kept.
#
# Core: about 85 minutes. You will need `torch.distributed` at the level of `labs/start.ipynb` (rank, collective,
# outcome).

# %% tags=["setup"]
import torch
import torch.distributed as dist

import simulator
from autograder import answer, check, hint, predict, reveal


def at_end_of_backward(callback) -> None:
    """Call `callback()` when the backward pass that runs now is done. Only inside a gradient hook."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


# %% [markdown]
# ## The brief
#
# A shop's search orders its results with a model that is trained anew every night, on the clicks of the day before.
#
# - **Who is affected.** Shoppers, from 06:00 on, when the new model goes live. The operators on call, whom a late job
#   wakes up. The product owner of search, who answers for the order of the results.
# - **What the job does.** 40 million clicks, once, in 01:30 to 06:00. The last half hour belongs to the evaluation and
#   to going live, so training has four hours.
# - **The problem, measurable.** One GPU makes 1,400 samples a second. That is 7.9 hours: too slow. So the job moved to
#   8 GPUs. It got *slower*: 1,100 samples a second. And last week one night's model was trained on the clicks of two
#   days before, on one of the ranks, and nobody noticed.
#
# ## The contract
#
# | input | version | owner | event time | available |
# |---|---|---|---|---|
# | clicks, one shard a rank | the day, `2026-03-13` | data platform | until 23:00 at least | 02:00 the next day |
# | initial weights | rank 0's | training | start of the night | before step 0 |
# | job: world size, batch, buckets, seed | its commit | training | the commit | with the job |
#
# Invariants. Each has an exercise below, and each is broken silently somewhere in the world tonight.
#
# 1. Every rank reads the declared version of the data. (Exercise 1)
# 2. In an epoch each sample is seen once, on one rank; what is repeated is declared. (Exercise 1)
# 3. After construction parameters and buffers are equal on all ranks. (Exercise 2)
# 4. After every backward each gradient is the mean over ranks, bit for bit equal on all. (Exercise 2)
# 5. All ranks make the same collectives in the same order, whatever their data. (Exercises 2 and 3)
# 6. What can hide behind backward does. (Exercises 3 and 4)
#
# Before you build anything, commit to two numbers.

# %%
predict("lab2/needed-speedup", None, "times one GPU")  # 40 million samples in four hours; one GPU makes 1,400 a second

# %%
reveal("lab2/needed-speedup", round(40e6 / (4 * 3600) / 1400, 1))

# %% [markdown]
# Two GPUs would almost do, if they scaled perfectly. So eight that work have a good reserve, and eight that are slower
# than one are a bug.
#
# ## Why is correct code wrong at three ranks?
#
# 5,000 gradients are summed over the ranks twice: in one piece, and in pieces of 701. How many of the 5,000 sums will
# differ in at least one bit, on 2 ranks? And on 3? Commit to the number for 2.

# %%
predict("lab2/bits-at-two", None, "of 5000 elements")


# %%
def two_layouts() -> int:
    mine = torch.randn(5000, generator=torch.Generator().manual_seed(dist.get_rank()))
    whole, pieces = mine.clone(), mine.clone()
    dist.all_reduce(whole)
    for bucket in pieces.split(701):
        dist.all_reduce(bucket)
    return int((whole != pieces).sum())


differences = {w: simulator.run(two_layouts, world_size=w).results[0] for w in (2, 3, 4)}
print("elements that differ, by number of ranks:", differences)
reveal("lab2/bits-at-two", differences[2])

# %% [markdown]
# Two numbers have one sum; three have several, because float addition depends on the order, and the ring adds each
# chunk in another order. Which chunk an element lies in depends on the bucket. Nothing is wrong here, but remember:
# **a test on two ranks cannot see it**. Every check of this lab uses 3 or 4.

# %%
# include: sampler

# %%
# include: wrap

# %%
# include: overlap

# %%
# include: eight-slower-than-one

# %% [markdown]
# ## The experiment: global batch and learning rate
#
# Eight ranks with 16 samples each make one step of 128 samples. An epoch has an eighth of the steps, so with the same
# learning rate the weights move less far. The usual cure for SGD is to scale the rate with the world size, as long as
# it stays stable. A real small model, 4,096 samples seen once: the loss on other data afterwards.


# %%
def train_small(rate: float) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # equal data and equal weights on every rank
    x = torch.randn(6144, 8)
    y = (x @ torch.randn(8, 1)).tanh() + 0.1 * torch.randn(6144, 1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    parameters = list(model.parameters())
    for mine in torch.arange(4096)[rank::world_size].split(16):
        loss = (model(x[mine]) - y[mine]).square().mean()
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]) / world_size
        dist.all_reduce(flat)
        with torch.no_grad():
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                p -= rate * part.view_as(p)
    with torch.no_grad():
        return (model(x[4096:]) - y[4096:]).square().mean().item()


RATE = 0.05
print("ranks  steps   loss with the same rate   with the rate times the ranks")
for ranks in (1, 2, 4, 8):
    same, scaled = (simulator.run(train_small, ranks, args=(rate,)).results[0] for rate in (RATE, RATE * ranks))
    print(f"{ranks:5}  {4096 // 16 // ranks:5}   {same:23.4f}   {scaled:29.4f}")

# %% [markdown]
# Play with it: at which `RATE` does the scaled rate of 8 ranks become unstable, while one rank is still fine? That is
# the limit of the rule, and the reason for a warm-up: the rate grows during the first steps.
#
# ## Checkpoint questions
#
# Nothing is graded; a wrong answer tells why it tempts and where to read on.

# %%
# question: where-it-synchronises

# %%
# question: who-splits-the-batch

# %%
# question: padding-in-evaluation

# %%
# question: unused-parameter

# %%
# question: launch-order

# %%
# question: bucket-size

# %%
# question: reading-a-slow-job

# %%
# question: bits-at-three

# %%
# question: linear-scaling

# %% [markdown]
# ## The decision
#
# It is 02:00. The operators ask you for limits that they can watch without you, the product owner for what the night
# costs. Assume 8 GPUs at 4.5 times one GPU, the target of exercise 4, and 2 $ for a GPU and hour (an assumption, to
# calculate with). Commit to each number, then see it calculated from the brief.

# %%
predict("lab2/night-minutes", None, "minutes")  # latency: how long does the night's training take?

# %%
reveal("lab2/night-minutes", round(40e6 / (1400 * 4.5) / 60, 1))

# %%
predict("lab2/night-dollars", None, "$")  # cost: of the night's training, 8 GPUs

# %%
reveal("lab2/night-dollars", round(8 * 2 * 40e6 / (1400 * 4.5) / 3600, 1))

# %%
predict("lab2/latest-start-minutes", None, "minutes after 01:30")  # fallback: after which start is 05:30 out of reach?

# %%
reveal("lab2/latest-start-minutes", round(4 * 60 - 40e6 / (1400 * 4.5) / 60, 1))

# %%
predict("lab2/capacity-samples", None, "million samples")  # capacity: what could be trained in the four hours?

# %%
reveal("lab2/capacity-samples", round(1400 * 4.5 * 4 * 3600 / 1e6, 1))

# %% [markdown]
# So: a start later than that falls back to yesterday's model, which is a decision of the product owner and made before
# the night, not in it. Below 2 times one GPU the job cannot make it at any start: an alarm on samples a second, set at
# that number, tells it after a minute of training instead of at 05:30.

# %%
# include: bucketed-ddp

# %%
# include: no-sync

# %%
# include: uneven

# %%
# include: elastic-sampler

# %%
# include: ring-all-reduce

# %% [markdown]
# ## What you can now defend
#
# - Where DDP synchronises, and why replicas stay equal without anybody comparing them.
# - Why a sampler without `set_epoch`, an undeclared repeat or a stale shard raises no error, and what to check instead.
# - Why all ranks need the same collectives in the same order, and what an unused parameter does to that.
# - From a trace: what a slow job waits for, which repair helps and which would be a wasted night.
# - Why "it works on two ranks" is no evidence.
