"""Import once, in the forkserver, everything that ranks import lazily: a rank then starts in milliseconds."""

import cloudpickle  # noqa: F401
import numpy  # noqa: F401
import torch
import torch._dynamo
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.pipelining
import torch.distributed.tensor.parallel
import torch.utils.checkpoint
import torch.utils.data

import simulator.rank.group
import simulator.rank.main
import simulator.rank.store
import simulator.rank.work  # noqa: F401

torch.set_num_threads(1)
