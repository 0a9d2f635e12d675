"""Plain data and tensors as bytes: how a rank's return value reaches the caller.

Supported: None, bool, int (64 bit), float, str, bytes, list, tuple, dict (str or int keys), torch.Tensor, numpy arrays
and scalars. Anything else is refused in the rank with the name of its type; decoding never runs code. torch and numpy
are imported only when a value needs them.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec

from simulator.errors import ResultError

_TENSOR, _TUPLE, _ARRAY = 1, 2, 3
_LEAVES = (type(None), bool, int, float, str, bytes)


def encode(value: Any) -> bytes:
    """Raises `ResultError` for what cannot travel."""
    try:
        return msgspec.msgpack.encode(_plain(value, "the result"))
    except (OverflowError, RecursionError) as error:
        raise ResultError(f"the result cannot be sent back: {error}") from None


def decode(data: bytes) -> Any:
    """What `encode` was given: tensors as CPU tensors without gradient, arrays as numpy arrays.

    Raises `ResultError` for bytes that `encode` never makes; no more memory is taken than `data` pays for.
    """
    try:
        return msgspec.msgpack.decode(data, ext_hook=_from_ext)
    except (msgspec.MsgspecError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ResultError(f"these bytes are no result: {error}") from None


def _plain(value: Any, where: str) -> Any:
    if type(value) in _LEAVES:
        return value
    if type(value) is list:
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return _ext(_TUPLE, [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)])
    if isinstance(value, dict):
        return {_key(key, where): _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _ext(_TENSOR, _tensor_parts(torch, value, where))
    if numpy is not None and isinstance(value, numpy.generic):
        return _plain(value.item(), where)
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
        return _ext(_ARRAY, [value.dtype.str, list(value.shape), value.tobytes()])
    raise ResultError(
        f"{where} is a {_type_name(value)}: return numbers, strings, lists, tuples, dicts, tensors or "
        "arrays (an object lives in the rank and dies with it; return what you want to know about it)"
    )


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _key(key: Any, where: str) -> str | int:
    if isinstance(key, str) or type(key) is int:
        return key
    raise ResultError(f"{where} has the dictionary key {key!r}: only str and int keys travel back")


def _ext(code: int, parts: list[Any]) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(parts))


def _tensor_parts(torch: Any, tensor: Any, where: str) -> list[Any]:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise ResultError(
            f"{where} is a {type(tensor).__name__}: return a plain tensor "
            "(for a DTensor: .full_tensor() or .to_local())"
        )
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return [
        str(tensor.dtype).removeprefix("torch."),
        list(tensor.shape),
        flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"",
    ]


def _from_ext(code: int, data: memoryview) -> Any:
    parts = msgspec.msgpack.decode(data, ext_hook=_from_ext)
    if code == _TUPLE:
        return tuple(parts)
    dtype, shape, raw = parts
    if not isinstance(dtype, str) or math.prod(shape) < 0 or (not raw and math.prod(shape)):
        raise ResultError("a tensor or array has no bytes or no dtype")
    if code == _ARRAY:
        import numpy

        return numpy.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    if code != _TENSOR:
        raise ResultError(f"unknown extension {code}")
    import torch

    torch_dtype = getattr(torch, dtype, None)
    if not isinstance(torch_dtype, torch.dtype):
        raise ResultError(f"a rank sent a tensor of the unknown dtype {dtype!r}")
    if not raw:
        return torch.empty(shape, dtype=torch_dtype)
    return torch.frombuffer(bytearray(raw), dtype=torch_dtype).reshape(shape)
