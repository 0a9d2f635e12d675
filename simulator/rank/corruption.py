"""Silent data corruption: bits of one element, flipped in what a collective takes or gives on one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from simulator.errors import FaultPlanError
from simulator.faults import Fault
from simulator.rank import context
from simulator.rank.operations import options, tensors
from simulator.rank.work import Launch

_IN_PLACE = ("allreduce", "allreduce_coalesced", "reduce", "broadcast")
_ROOT_SENDS, _ROOT_GETS = ("broadcast", "scatter"), ("reduce", "gather")


def touched(fault: Fault, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], rank: int) -> list[torch.Tensor]:
    """The tensors whose bits `fault` flips in this call; none where this rank (in the group) sends or gets nothing."""
    if method.endswith("barrier"):
        return []
    is_root = options(args, kwargs).root == rank
    one_sided = _ROOT_SENDS if fault.where == "payload" else _ROOT_GETS
    if method in one_sided and not is_root:
        return []
    return tensors(args[1 if fault.where == "payload" and method not in _IN_PLACE else 0])


def corrupted(launch: Launch, fault: Fault, targets: list[torch.Tensor], outputs: list[Any]) -> Launch:
    """`launch` with the flip in it. A payload that is not also the result is put back: the error was on the way."""
    _check(fault, targets)
    ctx = context.get()
    ctx.note(fault.kind, ctx.now_ns, str(fault))
    is_payload = fault.where == "payload"
    is_result_too = any(out is target for out in outputs for target in targets)

    def start(source: int) -> Callable[[], object]:
        if is_payload:
            _flip(fault, targets)
        finish = launch(source)

        def finish_and_flip() -> None:
            finish()
            if not is_payload or not is_result_too:
                _flip(fault, targets)

        return finish_and_flip

    return start


def _check(fault: Fault, targets: list[torch.Tensor]) -> None:
    """Raise `FaultPlanError` for an element or bit that these tensors do not have."""
    total = sum(target.numel() for target in targets)
    width = 8 * targets[0].element_size()
    if fault.element >= total or max(fault.bits) >= width:
        raise FaultPlanError(
            f"{fault}: the call has {total} elements of {width} bits (element 0 to {total - 1}, bits 0 to {width - 1})"
        )


def _flip(fault: Fault, targets: list[torch.Tensor]) -> None:
    position = fault.element
    for target in targets:
        if position < target.numel():
            break
        position -= target.numel()
    index = [int(i) for i in torch.unravel_index(torch.tensor(position), target.shape)] if target.dim() else []
    with torch.no_grad():
        place = target.detach()[tuple(index)] if index else target.detach()
        data = place.reshape(1).clone().view(torch.uint8)
        for bit in fault.bits:
            data[bit // 8] ^= 1 << (bit % 8)  # little-endian, as every machine that torch runs on
        place.copy_(data.view(target.dtype).reshape(place.shape))
