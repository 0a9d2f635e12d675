# %% [markdown]
# # Lab 2: DDP under the hood
#
# **What is here today:** one exercise of this lab, a *stretch* exercise: it is harder than the rest of the lab will be
# and nothing later depends on it. The core exercises of this lab are still being written.
#
# You will need: `torch.distributed` at the level of `labs/start.ipynb` (rank, collective, outcome).

# %% tags=["setup"]
import torch
import torch.distributed as dist

import simulator
from autograder import check, hint


def at_end_of_backward(callback) -> None:
    """Call `callback()` when the backward pass that runs now is done. Only inside a gradient hook."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


# %%
# include: sampler

# %%
# include: wrap

# %%
# include: overlap

# %%
# include: eight-slower-than-one

# %%
# include: ring-all-reduce
