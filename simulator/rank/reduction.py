"""Reductions in rank order: sums whose bits do not depend on how gloo cuts a tensor.

gloo adds in a ring whose order depends on the position in the tensor, so with three ranks or more the same gradients in
another bucket layout give other bits. Here every rank gathers all contributions and adds them 0, 1, 2, ...; slower, but
comparable across layouts, restarts and strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import AllgatherOptions

from simulator.rank.operations import reduce_name, tensors
from simulator.rank.work import Launch

_STEP: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
}
_REDUCED = ("allreduce", "allreduce_coalesced", "reduce")
_SCATTERED = ("_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter")


def rank_order(
    inner: Any, size: int, rank: int, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Launch | None:
    """A launcher for the reductions whose order matters; None for everything else."""
    name = reduce_name(args, kwargs)
    if name not in _STEP or method not in (*_REDUCED, *_SCATTERED):
        return None
    inputs, targets = tensors(args[1] if method in _SCATTERED else args[0]), tensors(args[0])
    if not inputs[0].dtype.is_floating_point and not inputs[0].dtype.is_complex:
        return None

    def launch(source: int) -> Callable[[], None]:
        gathered = [_gather(inner, size, tensor) for tensor in inputs]

        def finish() -> None:
            sums = [_fold(name, work_and_parts) for work_and_parts in gathered]
            if method == "reduce_scatter":
                targets[0].copy_(sums[rank])
            elif method in _SCATTERED:
                targets[0].copy_(sums[0].view(size, *targets[0].shape)[rank])
            else:
                for target, total in zip(targets, sums, strict=True):
                    target.copy_(total)

        return finish

    return launch


def _gather(inner: Any, size: int, tensor: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
    parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(size)]
    return inner.allgather([parts], [tensor.contiguous()], AllgatherOptions()), parts


def _fold(name: str, work_and_parts: tuple[Any, list[torch.Tensor]]) -> torch.Tensor:
    work, parts = work_and_parts
    work.wait()
    total = parts[0]
    for part in parts[1:]:
        total = _STEP[name](total, part)
    return total / len(parts) if name == "AVG" else total
