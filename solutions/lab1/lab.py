# %% [markdown]
# # Lab 1: choose data, sharded, tensor or pipeline parallelism

# %% tags=["setup"]
import torch
import torch.distributed as dist

import simulator
from autograder import answer, check, hint, predict, reveal
from autograder.checks.lab1.conventions import CONVENTIONS, Convention

# %%
# include: memory-ledger

# %%
# include: communication-volume
