"""Imports of the forkserver: what every rank needs, and (LATER) what many ranks import lazily.

With everything imported a rank starts in milliseconds. LATER is imported while nobody waits, at the latest before the
second run, so that a first run which only adds numbers does not wait for pipelining.
"""

import cloudpickle  # noqa: F401
import numpy  # noqa: F401
import torch
import torch.distributed
import torch.nn

import simulator.rank.charge
import simulator.rank.clocks
import simulator.rank.group
import simulator.rank.main
import simulator.rank.store
import simulator.rank.views
import simulator.rank.work  # noqa: F401

LATER = (
    "torch._dynamo",  # the first DistributedDataParallel imports it
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.utils.checkpoint",
    "torch.utils.data",
)

torch.set_num_threads(1)
