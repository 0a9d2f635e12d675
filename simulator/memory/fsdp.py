"""What FSDP2's own operators say about the buffers that they are given (torch/distributed/fsdp/_fully_shard)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from simulator.memory.record import COMMUNICATION, GATHERED, GRADIENTS

Mark = Callable[[str, Iterable[torch.Tensor]], None]


def _all_gather_copy_in(mark: Mark, args: Any, kwargs: Any) -> None:
    """Shards (copies of them, under mixed precision) go into the buffer of the all-gather."""
    mark(GATHERED, [*args[0], args[1]])


def _split_with_sizes_copy(mark: Mark, args: Any, kwargs: Any) -> None:
    """The buffer is spread over the full parameters."""
    mark(GATHERED, [args[0], *kwargs["out"]])


def _chunk_cat(mark: Mark, args: Any, kwargs: Any) -> None:
    """Full gradients go into the buffer of the reduce-scatter."""
    mark(GRADIENTS, args[0])
    mark(COMMUNICATION, [kwargs["out"]])


RULES: dict[str, Callable[[Mark, Any, Any], None]] = {
    "fsdp::all_gather_copy_in": _all_gather_copy_in,
    "fsdp::split_with_sizes_copy": _split_with_sizes_copy,
    "fsdp::chunk_cat": _chunk_cat,
}
