"""Steps and phases of a recorded program, by torch's own hooks: optimizer steps, forward, backward."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.modules import module
from torch.optim import optimizer

from simulator.rank.sites import call_site
from simulator.record.log import Log


def install(log: Log) -> None:
    """From now on events carry the step and the phase in which they were issued."""

    def before_module(*_: Any) -> None:
        if log.phase != "backward":  # checkpointing runs forward again
            log.phase = "forward"

    def before_step(*_: Any) -> None:
        log.phase = "optimizer"

    def after_step(*_: Any) -> None:
        log.begin_step(call_site())

    module.register_module_forward_pre_hook(before_module)
    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(after_step)
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def patched(*args: Any, **kwargs: Any) -> None:
        log.phase = "backward"
        backward(*args, **kwargs)

    torch.autograd.backward = patched
