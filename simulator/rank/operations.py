"""What torch's process-group methods mean: names, payloads, what ranks must agree on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import torch


class Operation(NamedTuple):
    """One method of a process group.

    op: torch's public name. shard: position of the argument that holds this rank's part. scale: whether the payload
    that nccl-tests counts is world size times that part. uneven: ranks may legally pass different shapes.
    """

    op: str
    shard: int = 0
    scale: bool = False
    uneven: bool = False


OPERATIONS: dict[str, Operation] = {
    "allreduce": Operation("all_reduce"),
    "allreduce_coalesced": Operation("all_reduce_coalesced"),
    "broadcast": Operation("broadcast"),
    "reduce": Operation("reduce"),
    "allgather": Operation("all_gather", shard=1, scale=True),
    "allgather_coalesced": Operation("all_gather_coalesced", shard=1, scale=True),
    "_allgather_base": Operation("all_gather_into_tensor", shard=1, scale=True),
    "all_gather_single": Operation("all_gather_into_tensor", shard=1, scale=True),
    "allgather_into_tensor_coalesced": Operation("all_gather_into_tensor_coalesced", shard=1, scale=True),
    "all_gather_single_coalesced": Operation("all_gather_into_tensor_coalesced", shard=1, scale=True),
    "gather": Operation("gather", shard=1, scale=True),
    "scatter": Operation("scatter", scale=True),
    "reduce_scatter": Operation("reduce_scatter", scale=True, uneven=True),
    "_reduce_scatter_base": Operation("reduce_scatter_tensor", scale=True),
    "reduce_scatter_single": Operation("reduce_scatter_tensor", scale=True),
    "reduce_scatter_tensor_coalesced": Operation("reduce_scatter_tensor_coalesced", scale=True),
    "reduce_scatter_single_coalesced": Operation("reduce_scatter_tensor_coalesced", scale=True),
    "alltoall": Operation("all_to_all", shard=1, uneven=True),
    "alltoall_base": Operation("all_to_all_single", shard=1, uneven=True),
    "all_to_all_single": Operation("all_to_all_single", shard=1, uneven=True),
    "barrier": Operation("barrier"),
    "monitored_barrier": Operation("monitored_barrier"),
    "send": Operation("send"),
    "recv": Operation("recv"),
    "recv_anysource": Operation("recv"),
}


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a tensor or nested list, flat."""
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], torch.Tensor):
            return [value[0]]  # nearly always
        return [t for item in value for t in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def num_bytes(parts: list[torch.Tensor]) -> int:
    return sum([t.numel() * t.element_size() for t in parts])


_dtype_names: dict[torch.dtype, str] = {}


def dtype_name(parts: list[torch.Tensor]) -> str:
    if not parts:
        return ""
    if (name := _dtype_names.get(dtype := parts[0].dtype)) is None:
        name = _dtype_names[dtype] = str(dtype).removeprefix("torch.")
    return name


class Options(NamedTuple):
    """What the options object among the arguments says; None for what it does not."""

    reduce_op: Any = None
    root: int | None = None
    timeout: timedelta | None = None


_NONE = Options()
#: By type of an argument: (has a reduce op, has a root) for options objects, None for anything else. Asking an object
#: for an attribute that it lacks costs more than all the rest.
_has: dict[type, tuple[bool, bool] | None] = {}


def options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Options:
    """Of one call of a process group's method."""
    for arg in (*args, *kwargs.values()) if kwargs else args:
        kind = type(arg)
        if kind not in _has:
            _has[kind] = (hasattr(arg, "reduceOp"), hasattr(arg, "rootRank")) if hasattr(arg, "timeout") else None
        if has := _has[kind]:
            return Options(arg.reduceOp if has[0] else None, arg.rootRank if has[1] else None, arg.timeout)
        if kind.__name__ in ("ReduceOp", "RedOpType"):  # some methods take it as it is
            return Options(arg)
    return _NONE


_reduce_names: dict[Any, str] = {}


def reduce_name(reduce_op: Any) -> str:
    """ "SUM", "AVG", ... or "" for operations that reduce nothing."""
    if reduce_op is None:
        return ""
    kind = getattr(reduce_op, "op", reduce_op)
    if (name := _reduce_names.get(kind)) is None:
        name = _reduce_names[kind] = str(kind).rpartition(".")[2]
    return name


def splits(args: tuple[Any, ...], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows that an all_to_all_single sends to and expects from each member: its split sizes, or equal parts."""
    output, given, expected, sent = args[:4]
    return _parts(given, sent, size), _parts(output, expected, size)


def _parts(tensor: torch.Tensor, sizes: list[int], size: int) -> tuple[int, ...]:
    return tuple(sizes) or (tensor.shape[0] // size,) * size


def peer_of(method: str, args: tuple[Any, ...], root: int | None, ranks: tuple[int, ...]) -> int:
    """Global rank of the other side of a message, or of the root of a collective; -1 for none."""
    if method in ("send", "recv"):
        return ranks[int(args[1])]
    return -1 if root is None or method == "recv_anysource" else ranks[root]


def outputs(name: str, args: tuple[Any, ...]) -> list[Any]:
    """What the future of the work resolves to, as gloo's does: the tensors of the first argument."""
    if name.endswith("barrier") or not args:
        return []
    first = args[0]
    if not isinstance(first, list | tuple):
        return [first]
    return list(first[0]) if first and isinstance(first[0], list | tuple) else list(first)
