# %% [markdown]
# # Lab 1: choose data, sharded, tensor or pipeline parallelism
#
# **The idea.** A model that does not fit, or not fast enough, has to be split over GPUs, and there are four ways to do
# it. Split the resource that is *really* over its budget, and stop splitting when communication eats the gain. Both
# halves of that sentence are arithmetic that you can do before anything runs: this lab builds it, checks it against
# real ranks to the byte, and ends with a decision.
#
# Core: about 90 minutes. You will need to know what a training step is, and ranks and collectives at the level of
# `labs/start.ipynb`.

# %% tags=["setup"]
import torch
import torch.distributed as dist

import simulator
from autograder import answer, check, hint, predict, reveal
from autograder.checks.lab1.conventions import CONVENTIONS, Convention

# %% [markdown]
# ## The brief
#
# A publisher of technical manuals trains its own language models, for a search that answers in sentences.
#
# - **Who is affected.** Service technicians who ask the search at the machine. The platform team that operates the
#   training cluster and pays for each GPU and hour. The product owner, who has promised a model for the autumn edition.
# - **What the job does.** It trains three sizes, each on all manuals, with a global batch that the training team has
#   fixed because it decides how the model converges.
# - **The problem, measurable.** Three requests lie on the platform team's desk: 7B on 8 GPUs with a batch of 32
#   sequences, 13B on 16 GPUs with 16, 70B on 128 GPUs with 64, all of A100-80GB, 2048 tokens a sequence. Last time
#   somebody "just used DDP" and the job died of memory after 40 minutes in the queue; then somebody "split
#   everything", and it ran at a third of the speed. Each request needs one plan, with limits that can be watched, or a
#   no with the reason.
#
# ## The contract
#
# | input | version | owner | event time | available |
# |---|---|---|---|---|
# | model: layers, widths, vocabulary | the configuration's commit | training | the commit | with the request |
# | global batch, sequence length | the same commit | training | the commit | with the request |
# | cluster: GPUs, memory, links | the inventory of the day | platform | when it was measured | before planning |
# | budget: hours, dollars, reserve | the request | product owner | its date | before planning |
#
# Invariants. Each has an exercise below.
#
# 1. Every byte on a GPU has a kind, and the kinds add up to what the GPU holds. (Exercise 1)
# 2. Every byte on the wire is known before the run, and the trace shows the same. (Exercise 2)
# 3. A split changes where numbers are computed, never which: losses and gradients are those of one GPU. (Exercise 3)
# 4. A plan keeps *all* limits; where none does, the answer names the limit that forbids them. (Exercise 4)
# 5. The global batch is exactly what was asked for, however the job is split. (Exercises 2 to 4)
#
# Before you build anything, commit to a number: of 70B on 128 GPUs with a global batch of 64 sequences, how many
# sequences does a GPU get if every GPU takes part in pure data parallelism?

# %%
predict("lab1/sequences-a-gpu", None, "sequences")

# %%
reveal("lab1/sequences-a-gpu", 64 / 128)

# %% [markdown]
# Half a sequence is none. So for this request at least two GPUs have to work on one sequence together, and DDP, ZeRO
# and FSDP *alone* are out, whatever the memory says. That is a constraint of the batch, and no GPU that can be bought
# removes it.
#
# ## Four ways to split
#
# | way | what is split | what stays whole on every GPU | what it sends |
# |---|---|---|---|
# | **data** (DDP) | the batch | all state of the model | gradients, once a step |
# | **sharded** (ZeRO, FSDP) | the batch, and where state is *stored* | all computing | weights and gradients |
# | **tensor** | every matrix | the batch, the activations between blocks | activations, several times a layer |
# | **pipeline** | the stack of layers | the computing of each of its layers | activations, once a micro-batch |
#
# "FSDP is model parallelism" is a common mistake: each GPU still computes the whole model for its own sequences, it
# only fetches the weights layer by layer. So it does not reduce the activations of a sequence, nor the largest layer.
#
# ## Words of this lab
#
# Come back here when one of them stops you; `docs/vocabulary.md` in the course folder has those of the whole course.
#
# - **Micro-batch**: a part of the global batch (all sequences of one optimizer step) that goes through the model at
#   once; `micro_batches` says how many there are. Their gradients are added up before the step.
# - **Unit**: the parameters that FSDP gathers and frees together, usually a layer. The *root* unit holds what belongs
#   to no layer: embedding, last norm, output matrix.
# - **itemsize**: bytes of one number of a tensor, 4 in FP32 and 2 in BF16.
# - **Stage, bubble**: the layers on one rank of a pipeline; the time in which stages have nothing to do.
#   **Interleaved**: a rank has several short stages instead of a long one, for a smaller bubble and more messages.
# - **HSDP**, hybrid sharding: ZeRO-3 inside a group of GPUs (often a node), plain data parallelism between the
#   groups.
# - **SP**, sequence parallelism: tensor parallelism that also splits what lies between its matrices, along the
#   tokens.
# - `dp8`, `tp2`, `pp4` in the name of a plan: 8 ways data parallel, 2 ways tensor parallel, 4 pipeline stages.
# - **Recomputation**: activations are thrown away and computed again in backward, memory for time.
# - **MFU**, model FLOPs utilization: the FLOPs that the model needs, over what the data sheet's peak would do in that
#   time. **HFU**, hardware FLOPs utilization: the FLOPs that run, recomputed ones too; a higher HFU can be a slower
#   run.
# - **GB** and **GiB**: 1e9 bytes, and `2**30`, which is 7 % more. The "80 GB" in the name of a GPU are about 80 GiB,
#   of which CUDA lets a program see 79.15 on an A100-80GB. Hence "of 79 GiB" in what the planner prints.
#
# The planner of this course predicts what each way would do for the three requests. These are *predictions*, with the
# error band that comparing it with published runs has shown; nobody here has run a 70B model.

# %%
for name, gpus, batch in (("7b", 8, 32), ("13b", 16, 16), ("70b", 128, 64)):
    planning = simulator.plan(name, gpus=gpus, batch=batch)
    best = planning.best
    print(
        f"{name}, {gpus} GPUs, batch {batch}: predicted {best.step_s:.2f} s a step, "
        f"{best.tokens_per_s_per_gpu:.0f} tokens/s/GPU"
    )
    print(f"    {best.layout.name}; {best.memory.total / 2**30:.0f} of {best.cluster.gpu.memory_gib:.0f} GiB")
    for kind, why in list(planning.rejected.items())[:2]:
        print(f"    no {kind}: {why}")
    for note in planning.notes:
        print(f"    {note}")

# %% [markdown]
# Why is plain DDP out for 7B, which has only 14 GB of weights? The ledger tells.

# %%
# include: memory-ledger

# %%
# include: communication-volume

# %%
# include: split-it

# %% [markdown]
# ## The experiment: four lanes of one toy
#
# One small transformer (8 layers of width 64), four ways to split it, on GPUs of 1 TFLOP/s that nobody sells. The upper
# bar of each lane is the time of a step, the lower one the memory of its fullest rank. In the table below, a red line
# stands where the winner changes.
#
# Everything in the picture is predicted. Move one slider at a time, and commit to what you expect first:
#
# 1. Start as it is. From which bandwidth on does data parallelism win on 4 GPUs? Why not below?
# 2. Set the memory to 12 MiB. Which lane drops out, and which kind of bytes is to blame? Does ZeRO-3 help?
# 3. A batch of 64 with much memory: data parallelism wins at every bandwidth on 4 GPUs. What has changed: bytes or
#    computing?
# 4. Tensor parallelism never wins here. Which number in its lane says why? What would have to be different: the link
#    (NVLink carries 200 GB/s and more), the batch, or the width of the model?

# %%
from autograder.checks.lab1 import four_lanes
from autograder.checks.lab1.four_lanes import Setting
from autograder.checks.lab1.lanes_picture import Picture, explore

explore(Setting(gpus=4, batch=16, gbytes_per_s=4.0, memory_mib=24))

# %% [markdown]
# One setting that stays, to compare with: the second question's. `print(Picture(...))` says the same in text.

# %%
Picture(Setting(gpus=4, batch=16, gbytes_per_s=4.0, memory_mib=12))

# %% [markdown]
# Now the same four on **real ranks**: torch's DDP, `fully_shard`, tensor slices, a 1F1B pipeline; four processes with
# real messages. Which number will differ from the prediction: bytes sent, bytes of state, or time? How many of the four
# lanes send exactly the bytes that were predicted, on every rank?

# %%
predict("lab1/lanes-exact", None, "of 4 lanes")

# %%
comparison = four_lanes.compare(Setting(gpus=4, batch=8, gbytes_per_s=4.0))
print(comparison)
reveal("lab1/lanes-exact", sum("NOT" not in line[:60] for line in comparison.splitlines()[1:]))

# %% [markdown]
# Bytes can be known exactly, because they follow from shapes. Times can not: the planner rounds the world off (it
# counts only half of the attention scores, and overlaps as well as it can), and so the last two columns differ. Do not
# trust a plan that differs from the second best by less than that.
#
# And where do the four wait? Two of them as timelines: the tensor lane stops for every block, the pipeline only at its
# beginning and end.

# %%
tensor_run = simulator.run(four_lanes.in_ranks, 2, args=("tp", four_lanes.TOY, 4, 4), cluster=Setting(gpus=2).cluster)
tensor_run.timeline()

# %%
pipeline_run = simulator.run(four_lanes.in_ranks, 4, args=("pp", four_lanes.TOY, 4, 4), cluster=Setting(gpus=4).cluster)
pipeline_run.timeline()

# %%
# include: choose

# %% [markdown]
# ## Checkpoint questions
#
# Nothing is graded; a wrong answer tells why it tempts and where to read on.

# %%
# question: what-fsdp-splits

# %%
# question: which-sixteen

# %%
# question: zero-and-activations

# %%
# question: zero3-price

# %%
# question: more-gpus

# %%
# question: tensor-across-nodes

# %%
# question: which-bubble

# %%
# question: no-plan

# %%
# question: recompute

# %%
# question: utilization

# %% [markdown]
# ## The decision
#
# The 7B request is granted: 8 GPUs, the plan from the top of this notebook. The operators ask for limits that they can
# watch without you, the product owner for the bill. 20 billion tokens are to be trained, at 4 $ for a GPU and hour (an
# assumption, to calculate with). Commit to each number, then see it computed from the prediction.

# %%
granted = simulator.plan("7b", gpus=8, batch=32).best
print(f"{granted.layout.name}: {granted.step_s:.2f} s a step, {granted.memory.total / 2**30:.1f} GiB")

# %%
# latency: 13 % above, the worst error on the fitted runs, is an alarm
predict("lab1/alarm-step-seconds", None, "s")

# %%
reveal("lab1/alarm-step-seconds", round(1.13 * granted.step_s, 2))

# %%
# cost of 20 billion tokens on 8 GPUs
predict("lab1/training-dollars", None, "$")

# %%
hours = 20e9 / (granted.tokens_per_s_per_gpu * 8) / 3600
reveal("lab1/training-dollars", round(hours * 8 * 4))

# %%
predict("lab1/tokens-a-day", None, "million tokens a day")  # capacity of the job

# %%
reveal("lab1/tokens-a-day", round(granted.tokens_per_s_per_gpu * 8 * 86400 / 1e6))

# %%
# fallback: half of the GPUs are gone. The best plan on 4, a step?
predict("lab1/fallback-step-seconds", None, "s")

# %%
fallback = simulator.plan("7b", gpus=4, batch=32).best
print(fallback.layout.name)
reveal("lab1/fallback-step-seconds", round(fallback.step_s, 2))

# %% [markdown]
# So the operators get four lines: an alarm on the step time, a budget, a capacity to plan with, and a plan for the day
# on which half a node is missing, with the *same global batch*, so that the training team does not have to ask what it
# does to convergence. The 70B request goes back with one sentence about half a sequence, and a plan that answers it.

# %% [markdown]
# ## Stretch exercises
#
# The hardest things, for a badge each: their points say how far you are and do not count in the grade. In any order, or
# not at all.

# %%
# include: pipeline

# %%
# include: tensor-attention

# %%
# include: full-search

# %%
# include: ring-attention

# %% [markdown]
# ## What you can now defend
#
# - What a rank holds under each convention, and which of the "16 bytes a parameter" somebody means.
# - How many bytes each split sends in a step, and on how many GPUs it stops paying, with one inequality.
# - Where the all-reduces of a tensor-parallel block belong, and why its bias and residual stay outside.
# - Why 1F1B and GPipe take the same time and not the same memory, and what a bubble costs.
# - That "infeasible, because of ..." is an answer, and which limit to raise.
#
# With the stretch exercises: which key/value heads ranks must copy and whose gradients then add up; why a ring of
# slices never needs all keys at once, and what its softmax carries along; which plans need not be looked at, and why
# that is safe.
