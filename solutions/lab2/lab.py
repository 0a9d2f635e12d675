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

# %%
# include: sampler

# %%
# include: ring-all-reduce
