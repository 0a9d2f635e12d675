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

from simulator.rank.operations import options, reduce_name, tensors
from simulator.rank.payloads import unseen
from simulator.rank.work import Launch

_STEP: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
}
_REDUCED = ("allreduce", "allreduce_coalesced", "reduce")
_SCATTERED = (
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
)


def rank_order(
    inner: Any, size: int, rank: int, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Launch | None:
    """A launcher for the reductions whose order matters; None for everything else."""
    said = options(args, kwargs)
    name = reduce_name(said.reduce_op)
    if name not in _STEP or method not in (*_REDUCED, *_SCATTERED, "reduce_scatter"):
        return None
    targets = tensors(args[0])
    inputs = targets if method in _REDUCED else tensors(args[1])
    if not all(_order_matters(tensor) for tensor in inputs):
        return None

    def launch(source: int) -> Callable[[], None]:
        with unseen():
            gathered = [_gather(inner, size, tensor) for tensor in inputs]

        def finish() -> None:
            with unseen():
                add_up([_fold(name, work_and_parts) for work_and_parts in gathered])
            gathered.clear()

        def add_up(sums: list[torch.Tensor]) -> None:
            if method == "reduce_scatter":
                targets[0].copy_(sums[rank])
            elif method == "reduce" and said.root != rank:
                return  # what gloo leaves there is no sum either
            else:
                for target, total in zip(targets, sums, strict=True):
                    shard = total.view(size, *target.shape)[rank] if method in _SCATTERED else total
                    target.copy_(shard)

        return finish

    return launch


def _order_matters(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


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
