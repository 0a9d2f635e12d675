"""What the checks of the data-parallel wrappers share: local gradients on the rank's side, means on the trusted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from autograder.checks import compare
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault
from simulator.cluster.algorithms import bytes_sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from simulator.trace import Event

SLACK = 8.0  # times the rounding of a sum: averages may divide before or after they add
NAME_LENGTH = 40


class Gradients(msgspec.Struct):
    """Of one backward pass on one rank: what this rank's own data gives, and what the parameters hold afterwards."""

    names: list[str]
    local: list[Array]
    held: list[Array]


def trainable(module: Any) -> list[tuple[str, Any]]:
    """Parameters that are trained, by name; a tied one comes once."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def gradient(parameter: Any) -> Array:
    """The gradient as data; zeros where there is none, which means the same for a mean."""
    import torch

    return array(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)


def local(twin: Any, module: Any, batch: Any) -> list[Array]:
    """This rank's own gradients of the mean square of the output: ``twin`` is a copy that nobody has wrapped."""
    twin.load_state_dict(module.state_dict())
    twin.zero_grad()
    twin(batch).square().mean().backward()
    return [gradient(p) for _, p in trainable(twin)]


def not_the_mean(steps: Sequence[Sequence[Gradients]]) -> Fault | None:
    """The first gradient, by step and rank, that is not the mean of the ranks' local gradients; then: other bits."""
    for step, ranks in enumerate(steps):
        for k, name in enumerate(ranks[0].names):
            parts = [said.local[k].numpy() for said in ranks]
            held = [said.held[k].numpy() for said in ranks]
            if fault := _wrong_mean(name[:NAME_LENGTH], parts, held):
                return msgspec.structs.replace(fault, step=step, text=f"step {step}, {fault.text}")
    return None


def _wrong_mean(name: str, parts: list[np.ndarray[Any, Any]], held: list[np.ndarray[Any, Any]]) -> Fault | None:
    if len({part.shape for part in parts}) > 1:
        return Fault(f"the ranks do not have the same shape of {name}.")
    total, tolerance = compare.sum_of(parts)
    for rank, output in enumerate(held):
        fault = compare.wrong_array(f"the gradient of {name}", rank, output, total / len(parts), SLACK * tolerance)
        if fault:
            return msgspec.structs.replace(fault, text=fault.text + _like(output, parts, total, rank))
    fault = compare.different_bits(f"the gradient of {name}", held)
    more = " Replicas that differ in one bit drift apart."
    return msgspec.structs.replace(fault, text=fault.text + more) if fault else None


def _like(output: Any, parts: list[Any], total: Any, rank: int) -> str:
    """What a wrong gradient looks like."""
    if output.shape == total.shape and len(parts) > 1:
        if not compare.far(output, parts[rank], abs(parts[rank]) * 1e-6):
            return " That is this rank's own gradient: nothing was averaged."
        if not compare.far(output, total, abs(total) * 1e-5):
            return " That is the sum over ranks, not the mean."
    return ""


def timed(x: Any, seconds: float) -> Any:
    """``x``; its backward takes that much virtual time."""
    import torch

    import simulator

    class Timed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            simulator.compute(seconds)
            return grad

    return Timed.apply(x)  # type: ignore[no-untyped-call]


def sent(events: Sequence[Event], world_size: int) -> float:
    """Bytes that a rank's collectives make it send in the ring algorithm, whatever their kind."""
    return sum(bytes_sent(e.op, e.bytes, world_size) for e in events if e.is_collective)
