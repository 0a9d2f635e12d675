# %% [markdown]
# # Lab 2: DDP under the hood
#
# **The idea.** Data-parallel training works on replicas that stay identical, and they do so only because every rank
# keeps one contract: the same parameters, the same collectives in the same order, its own part of the data, the mean of
# all gradients. DDP hides the contract; here you build each part of it, and see what breaks when it is not kept.
#
# Core: about 90 minutes. You will need `torch.distributed` at the level of `labs/start.ipynb` (rank, collective,
# outcome), and Python classes.
#
# **How the cells work.** `predict(..., None, ...)`: write your number in the place of `None` and run it; the cell with
# `reveal` compares. `check(...)`: runs your exercise cell on cases of its own and says what it found; as often as you
# like. `# hint(...)`: remove the `# ` to get a question about what the last check found, later more. `answer(..., "")`:
# write the letter of your choice.

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
# | clicks: a shard a day, on each node | `2026-03-13` | data platform | until 23:00 at least | 01:00 the next day |
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
# Before you build anything, commit to a number.

# %%
# 40 million samples in four hours; one GPU makes 1,400 a second
predict("lab2/needed-speedup", None, "times one GPU")

# %%
reveal("lab2/needed-speedup", round(40e6 / (4 * 3600) / 1400, 1))

# %% [markdown]
# Two GPUs would just do, if they scaled perfectly. So eight that work have a good reserve, and eight that are slower
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
# **a test on two ranks cannot see it**. Every check with ranks uses 3 or 4.

# %%
# include: sampler

# %%
# include: wrap

# %%
# include: overlap

# %%
# include: eight-slower-than-one

# %% [markdown]
# ## The experiment: an X-ray of DDP
#
# You have built the parts; now look into torch's own. The model below registers its layers in another order than it
# uses them, as models do that grew over the years. The run returns when each gradient was ready: an event in the
# compute stream notes the time and holds nobody up, as on a GPU. When the buckets left and arrived is in the trace.


# %%
from torch.nn.parallel import DistributedDataParallel

from autograder.experiments import BucketCurve, xray, xray_text


class Grown(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.third = torch.nn.Linear(2048, 1024)
        self.first = torch.nn.Linear(512, 1024)
        self.fourth = torch.nn.Linear(1024, 512)
        self.second = torch.nn.Linear(1024, 2048)

    def forward(self, x):
        return self.fourth(self.third(self.second(self.first(x))))


def two_iterations(bucket_mb: float) -> list:
    begin, ready = torch.cpu.Event(), []  # for each step: what was ready when
    begin.record()
    model = DistributedDataParallel(Grown(), bucket_cap_mb=bucket_mb)

    def note(name, parameter) -> None:
        event = torch.cpu.Event()
        event.record()
        ready[-1].append((name, 4 * parameter.numel(), event))

    for name, parameter in model.module.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: note(name, p))
    for _ in simulator.steps(2):
        ready.append([])
        model(torch.ones(256, 512)).mean().backward()
        model.zero_grad()
    return [(k, name, size, round(begin.elapsed_time(e) * 1e6)) for k in (0, 1) for name, size, e in ready[k]]


x = simulator.run(two_iterations, 4, args=(8,))
xray(x)

# %% [markdown]
# A is the first iteration, B the second, both from their own beginning. A triangle is a gradient that is ready; point
# at it, or at a box. In the rows called *network* a bucket is issued at the short line and on its way in the box. The
# same in numbers:

# %%
print(xray_text(x))

# %% [markdown]
# - **Iteration 1.** DDP does not know yet in which order gradients come. All are in one bucket, in the order of
#   registration, which leaves when the *last* gradient is there: nothing overlaps.
# - **Before iteration 2** rank 0 tells the others the order that it saw (the two short broadcasts), and all rebuild
#   their buckets in it. The gradients of `fourth` and `third` are ready first, and leave while `second` and `first`
#   still compute. So the last bucket arrives earlier, although the iteration began with the two broadcasts.
# - This layout is hidden state. A job that starts again from a checkpoint begins with one bucket once more, and from
#   three ranks on its sums differ in their last bits. Lab 4 comes back to it.
#
# Play: one rank slower (`faults="slow(rank=2, factor=2)"` in the call of `simulator.run`), a bucket for each tensor
# (`args=(0.1,)`), one for all (`args=(100,)`). Who waits for whom, and what does a bucket wait for?
#
# ### How large is a good bucket?
#
# Small buckets leave early, but each pays the latency of a message. Large ones leave late: the last one has nothing to
# hide behind. Before you move the slider: which size is best for 151 MB of gradients on 8 A100s? (DDP takes 25 MB
# unless told otherwise.)

# %%
predict("lab2/best-bucket", None, "MB")

# %%
curve = BucketCurve()
reveal("lab2/best-bucket", curve.best().bucket_mb)
curve

# %% [markdown]
# Every point is a real run of 8 ranks with torch DDP, recorded in virtual time, because running them takes minutes
# (`python -m autograder.experiments.buckets` records them again). The bottom of the U is flat: half or twice the best
# size costs less than a tenth. Its left side is steep: with 1 MB, here a bucket for each layer, a step takes 2.6 times
# as long.
#
# ### The bits, one by one
#
# At the top of this lab you counted sums that differ. Here is one of them for each number of ranks: the 32 bits of the
# float, summed in one piece and in pieces of 701. A `^` marks a bit that differs. On two ranks there is none to show.


# %%
def sums() -> tuple[list, list]:
    mine = torch.randn(5000, generator=torch.Generator().manual_seed(dist.get_rank()))
    whole, pieces = mine.clone(), mine.clone()
    dist.all_reduce(whole)
    for bucket in pieces.split(701):
        dist.all_reduce(bucket)
    return whole.view(torch.int32).tolist(), pieces.view(torch.int32).tolist()


for ranks in (2, 3, 4):
    pairs = list(zip(*simulator.run(sums, ranks).results[0], strict=True))
    different = [k for k, (one, other) in enumerate(pairs) if one != other]
    k = different[0] if different else 0
    one, other = (f"{bits & 0xFFFFFFFF:032b}" for bits in pairs[k])
    marks = "".join("^" if a != b else " " for a, b in zip(one, other, strict=True))
    print(f"{ranks} ranks: {len(different)} of 5000 sums differ; element {k}:")
    print(f"  {one}  in one piece\n  {other}  in pieces\n  {marks.rstrip()}")

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

# %%
# include: decision

# %% [markdown]
# ## Stretch exercises
#
# The hardest things, for a badge each: their points say how far you are and do not count in the grade. In any order, or
# not at all.

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
