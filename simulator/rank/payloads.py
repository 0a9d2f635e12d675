"""What gloo gets to hold: aliases of a caller's tensors, and the wait until it has let go of them.

gloo's threads drop their references a little after `wait` returned, by the real clock. Where the caller dropped its
own in between (every second time, measured), the storage would die on gloo's thread, at a moment that depends on the
machine, and virtual memory would with it.
"""

from __future__ import annotations

import os
from typing import Any

import torch

_LONGEST = 1_000_000  # yields: many seconds; then something else than gloo holds the alias, which harms nobody


def aliases(value: Any) -> Any:
    """The same arguments with other tensor objects on the same storages, of which nobody else knows."""
    with torch._C._DisableTorchDispatch():
        return _aliases(value)


def _aliases(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return type(value)(map(_aliases, value)) if type(value) in (list, tuple) else value


def wait_released(value: Any) -> None:
    """Returns when nobody but the caller holds the aliases in `value`."""
    if isinstance(value, torch.Tensor):
        for _ in range(_LONGEST):
            if value._use_count() <= 1:  # type: ignore[attr-defined]
                return
            os.sched_yield()
    elif type(value) in (list, tuple):
        for item in value:
            wait_released(item)
