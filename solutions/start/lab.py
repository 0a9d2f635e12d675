# %% [markdown]
# # Start here
#
# **15 minutes, not graded.** You will run a function on several ranks, add numbers across them, cause a hang on
# purpose, read what went wrong, and replay it.
#
# A notebook is made of cells. Click a cell, press **Shift+Enter**: it runs and the next one is selected.
# Run the cells from top to bottom. Everything happens on this computer; no GPU, no network.

# %% tags=["setup"]
import torch
import torch.distributed as dist

import simulator

# %% [markdown]
# ## 1. Does it work? (2 minutes)
#
# Remove the `# ` in front of the last line below, then run the cell. (While the `# ` is there, you see nothing at all:
# the line is only a comment.) The first run takes a few seconds, because it starts a helper that keeps PyTorch loaded;
# every later run takes a fraction of a second.
#
# - Pass the function, do not call it: `simulator.run(hello)`, not `simulator.run(hello())`.
# - Inside the function the process group is already initialised. You need no `dist.init_process_group`; calling it
#   does no harm, as long as the backend is `gloo` or left out.


# %%
def hello() -> str:
    return f"hello from rank {dist.get_rank()} of {dist.get_world_size()}"


# simulator.run(hello, world_size=3).results

# %% [markdown]
# You should see a list of three greetings, from ranks 0, 1 and 2. Then the tools work and you can go on.
# If you see an error instead, run `lockstep doctor` in a terminal: it says what is missing.
#
# ## 2. What a rank is (3 minutes)
#
# **The function runs N times, and only what it returns comes back.** `simulator.run(fn, world_size=3)` starts three
# processes. Each one runs the whole of `fn`. The processes are called **ranks** and are numbered from 0; their number
# is the **world size**. Ranks share no variables, neither with each other nor with this notebook.
#
# Before you run the next cell, guess: what does each rank print, and what is `counter` in this notebook afterwards?

# %%
counter = 0


def count() -> int:
    global counter
    counter += 1
    print("my counter is", counter)
    return dist.get_rank() * 10


run = simulator.run(count, world_size=3)
print("came back:", run.results)
print("counter in this notebook:", counter)

# %% [markdown]
# Every rank counted its own copy up to 1. The notebook's `counter` stayed 0. The only way back is `return`:
# `run.results` holds one value per rank, in rank order.
#
# **What is real here, and what is modelled**
#
# | real | modelled |
# |---|---|
# | the processes, and that each has its own memory | time: every clock is *virtual* and counts modelled seconds |
# | the tensors, and the messages between ranks (PyTorch's gloo) | how fast a GPU computes and how fast links are |
# | `torch.distributed`, as you would use it on a cluster | how long it takes to notice that a rank is gone |
# | a killed rank: it really is killed | when a send or a collective lets go (as on GPUs with NCCL) |
#
# Because time is modelled, waiting costs nothing: a 30-minute timeout passes in milliseconds. And the same function
# with the same settings gives the same events at the same virtual times, on any computer.

# %% [markdown]
# ## 3. One all-reduce (3 minutes)
#
# A **collective** is a call that every rank makes together. `dist.all_reduce(t)` adds up the tensors of all ranks and
# leaves the sum in `t` on every rank. In data-parallel training this is how ranks agree on one gradient.


# %%
def add_up() -> float:
    mine = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(mine)
    return mine.item()


run = simulator.run(add_up, world_size=4)
run.results  # 1 + 2 + 3 + 4, on every rank

# %% [markdown]
# Now with some work before it. `simulator.compute(seconds)` says "this takes so long on the GPU" and moves this rank's
# virtual clock. Rank 3 works longest. When will rank 0 be done with the all-reduce?


# %%
def work_then_add() -> None:
    rank = dist.get_rank()
    simulator.compute(0.001 * (rank + 1))  # rank 0: 1 ms ... rank 3: 4 ms
    gradients = torch.ones(5_000_000)  # 20 MB
    dist.all_reduce(gradients)


run = simulator.run(work_then_add, world_size=4)
run.timeline()

# %% [markdown]
# Read it from left to right: one row per rank. The ranks that arrive early wait; the transfer begins when the last
# one, rank 3, has arrived. **One slow rank makes all of them slow.** The rank that waits the *least* is the slow one.

# %% [markdown]
# ## 4. Cause a hang, and read it (5 minutes)
#
# Here is a training loop with a bug that has cost people many GPU-hours. A rank that meets a bad batch (its loss is
# not a number) skips that step. It sounds careful. Rank 2 will meet one in step 1.


# %%
def train() -> list[float]:
    rank = dist.get_rank()
    mean_losses = []
    for step in simulator.steps(3):
        simulator.compute(0.001)  # forward and backward
        bad_batch = rank == 2 and step == 1
        loss = torch.tensor([float("nan") if bad_batch else 1.0 + rank])
        if loss.isnan():
            continue  # the bug: only this rank leaves the step
        dist.all_reduce(loss)
        mean_losses.append(loss.item() / dist.get_world_size())
    return mean_losses


hang = simulator.run(train, world_size=4, echo=False)
print(hang.outcome.explain())

# %% [markdown]
# On a cluster you would have waited for the timeout (often 10 to 30 minutes), and the error would name the ranks
# that *wait*. They did nothing wrong. Read the text above and find:
#
# 1. Which rank is missing, and where did it go?
# 2. Which collective do the others wait in?
# 3. Rank 2 skipped step 1, but its all-reduce of step 2 still found partners. With which step of the others was it
#    added up?

# %%
hang.timeline()

# %% [markdown]
# <details><summary>Answers (click)</summary>
#
# 1. Rank 2: it has finished. It made one all-reduce fewer than the others.
# 2. In all-reduce #2, counted from 0: that of step 2. There is nobody left who could join it.
# 3. With step 1 of the others. Collectives are matched by their order, not by your step numbers. So one wrong sum came
#    out before the hang, without any error. A hang is often the *second* thing that went wrong.
#
# </details>

# %% [markdown]
# ## 5. Replay it (2 minutes)
#
# A hang that you can get again at will is half solved. Every run says how to repeat it, and two runs can be compared
# by their **digest**, a fingerprint of everything that happened and when.

# %%
print(hang.replay)
again = simulator.run(train, world_size=4, echo=False)
print("first run ", hang.trace.digest[:16])
print("second run", again.trace.digest[:16])
print("the same, event by event:", hang.trace.digest == again.trace.digest)

# %% [markdown]
# You can also break things without touching the code. A **fault plan** says what goes wrong and where; the fault
# strikes at a step, never "after 0.3 seconds", so it strikes at the same place every time.

# %%
lost = simulator.run(work_then_add, world_size=4, faults="kill(rank=2, collective=0)", echo=False)
print(lost.outcome.text)
lost.timeline()

# %% [markdown]
# **Your turn, if you like:** repair `train` above so that it completes, then run it again. Every rank must make the
# same collectives in the same order, so the decision to skip must be taken *together*.
#
# <details><summary>One way (click)</summary>
#
# ```python
# bad = torch.tensor([float(loss.isnan())])
# dist.all_reduce(bad)              # every rank takes part, and every rank gets the same answer
# if bad.item() > 0:
#     continue                      # so either all ranks skip this step, or none
# ```
#
# </details>

# %% [markdown]
# ## What is next
#
# You know the four words that everything here is built from: **rank**, **collective**, **outcome**, **replay**.
#
# - Open `labs/lab1/lab1.ipynb` (in the folder list on the left) for the first exercise; Lab 2 comes after it.
# - An exercise has a cell for your code and a cell with `check(...)`. The check says what it saw and on which rank;
#   it never gives you only a traceback. You may check as often as you like.
# - `hint(...)` gives you one step at a time, about what the last check found.
# - `lockstep status` in a terminal (menu *File, New, Terminal*) shows what you have done and what is next.
#
# You will meet the rest of the course in the same way: run it, break it, read what happened, mend it.
