"""Virtual memory: what a rank's tensors hold, by kind and module, and what a layer saves for its backward.

Importing it does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from simulator.memory.layers import MemoryProfile

__all__ = ["memory_profile"]


def memory_profile(
    module: nn.Module, batch: Any, *, loss: Callable[[Any], Any] | None = None, real: bool = False
) -> MemoryProfile:
    """What each layer saves for backward in one forward pass, and what it would free and cost to checkpoint it.

    Args:
        module: in the mode (train or eval) that is meant; on the meta device, too, where it takes no memory.
        batch: its argument; a tuple or list of arguments; or a dict of keyword arguments.
        loss: computes the loss from what the module returns: then what that saves is a row, too.
        real: run on real values instead of fake tensors, for models that look at values. Buffers and the random state
            are put back.

    Returns:
        Bytes and FLOPs by layer; the same for every run.

    Raises:
        UsageError: nothing requires a gradient, or the model looks at values and `real` is not given.
    """
    from simulator.memory.profile import profile

    return profile(module, batch, loss, real)
