"""The rank side of the check: call the student's function on one input after another and return what is left.

Runs in ranks only. The tensor is a slice of a longer buffer, so that a write past its ends is seen.
"""

from __future__ import annotations

import hashlib
from typing import Any

from autograder.checks.student import Assembly, OperationLimit, load

GUARD = 8  # elements on either side of the tensor
MAX_OPERATIONS = 1000  # sends and receives for one tensor; element by element on 5 ranks it would be 864
_GUARD_VALUE = 77


def run_cases(assembly: Assembly, name: str, work_s: float, inputs: list[tuple[bytes, str]]) -> list[dict[str, Any]]:
    """Reduce every input of this rank in turn, one step each; one input alone is no step, so none is in its picture.

    Args:
        assembly: the student's code.
        name: the function to call.
        work_s: virtual seconds of compute before each call; a slow rank takes longer.
        inputs: raw bytes and dtype of this rank's tensors.
    """
    import torch

    import simulator

    function = load(assembly, name)
    buffers = [_buffer(data, getattr(torch, dtype)) for data, dtype in inputs]
    random_state = _random_state()
    said: list[dict[str, Any]] = []
    operations = OperationLimit(MAX_OPERATIONS)
    for k in simulator.steps(len(inputs)) if len(inputs) > 1 else range(len(inputs)):
        if work_s:
            simulator.compute(work_s)
        whole = buffers[k]
        tensor = whole[GUARD : len(whole) - GUARD]
        length, dtype = tensor.shape, tensor.dtype
        operations.reset()
        returned = function(tensor)
        changed = [] if tensor.shape == length and tensor.dtype == dtype else ["shape"]
        changed += ["neighbours"] if _guards_changed(whole) else []
        changed += ["random state"] if _random_state() != random_state else []
        said.append({"data": _inner(whole), "changed": changed, "returned": type(returned).__name__})
    for k, whole in enumerate(buffers):
        if _inner(whole) != said[k]["data"]:
            said[k]["changed"].append("earlier tensor")
    return said


def _buffer(data: bytes, dtype: Any) -> Any:
    import torch

    values = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    guard = torch.full((GUARD,), _GUARD_VALUE, dtype=dtype)
    return torch.cat([guard, values, guard])


def _inner(whole: Any) -> bytes:
    data: bytes = whole[GUARD : len(whole) - GUARD].numpy().tobytes()
    return data


def _guards_changed(whole: Any) -> bool:
    return bool((whole[:GUARD] != _GUARD_VALUE).any() or (whole[len(whole) - GUARD :] != _GUARD_VALUE).any())


def _random_state() -> str:
    import torch

    return hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
