"""What every operator of a rank costs in virtual time, charged as it runs: forward, backward and optimizer alike.

A dispatch mode sees each operator below autograd. Its cost follows from its FLOPs and the bytes that it has to move
(`Gpu.operator_ns`), which follow from shapes and dtypes: so it is worked out once for each (operator, shapes) and is
the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from simulator.flops import count_flops
from simulator.rank.operations import dtype_name
from simulator.rank.payloads import unseen

if TYPE_CHECKING:
    from simulator.cluster import Gpu
    from simulator.rank.context import Context

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_COPIES = ("embedding", "index_select", "gather", "index", "select_copy", "slice_copy", "cat", "stack")
_OVERWRITES = ("copy_", "zero_", "fill_", "normal_", "uniform_", "_foreach_copy_", "_foreach_zero_", "bernoulli_")
_VIEWS = frozenset(("alias", "detach", "_unsafe_view", "_reshape_alias"))
_FREE = frozenset(
    (
        *("lift", "lift_fresh", "set_", "resize_"),  # views by their schemas, some; but what C++ made comes this way
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "record_stream"),
        *("is_same_size", "sym_size", "sym_stride", "sym_numel", "is_pinned", "_version"),
    )
)
_READS = frozenset(("_local_scalar_dense", "equal", "is_nonzero", "nonzero", "allclose"))
#: With these DDP's reducer marks unused parameters, in the order of their addresses in memory. Inside AccumulateGrad,
#: from where it does that, they cost nothing, or virtual time would depend on those addresses.
_OF_REDUCER = frozenset(("zero_", "fill_", "_local_scalar_dense"))
_CHARGED_NAMESPACES = ("aten", "fsdp", "torchvision", "prims")


def optimizers_as_on_a_gpu() -> None:
    """There torch's optimizers and `clip_grad_norm_` work on all tensors at once (foreach) unless told otherwise; and
    the numbers of steps, which they read, lie on the CPU: reading them waits for nothing.
    """
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    modules: tuple[Any, ...] = (optimizer, _foreach_utils)
    for module in modules:
        devices = module._get_foreach_kernels_supported_devices
        module._get_foreach_kernels_supported_devices = lambda devices=devices: [*devices(), "cpu"]
    read = optimizer._get_value

    def read_on_cpu(value: Any) -> Any:
        with unseen():
            return read(value)  # type: ignore[no-untyped-call]

    for name, module in sys.modules.items():
        if name.startswith("torch.optim.") and getattr(module, "_get_value", None) is read:
            vars(module)["_get_value"] = read_on_cpu


class Charging(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Pushed once in every registered thread of a rank: moves its clock, and tells its ledger of memory."""

    def __init__(self, ctx: Context, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ctx, self.ledger, self.thread = ctx, ctx.ledger, ctx.thread
        self.launch_ns = round(gpu.launch_overhead_us * 1e3)
        self.kinds = _Kinds(is_free=gpu.is_free)
        self.cost = _Costs(gpu, self.launch_ns)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch wraps the next method in one that costs as much again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and not _PLAIN.issuperset(types):
            if FakeTensor in types:  # DTensor asks for shapes: nothing runs
                return func(*args, **kwargs or {})
            return NotImplemented  # DTensor and the like: come back with the local tensors
        out = func(*args, **kwargs) if kwargs else func(*args)
        kind = self.kinds.get(id(func)) or self.kinds.look_at(func)
        if kind == VIEW or self.thread.is_ours:  # the simulator's own arithmetic costs the rank nothing
            return out
        if kind == OF_REDUCER:
            kind = _kind_of_reducers(func)
        if kind == CHARGED:
            self.ctx.charge(self.thread, *self.cost(func, args, kwargs, out))
        elif kind == READS:
            self.thread.advance(self.thread.now_ns)
        if self.ledger is not None:
            self.ledger.operator(func, args, kwargs or {}, out)
        return out


#: What an operator asks for: stream time; nothing, but it may take memory; nothing at all; that the host waits for a
#: value; see `_OF_REDUCER`.
CHARGED, FREE, VIEW, READS, OF_REDUCER = range(1, 6)


class _Kinds(dict[int, int]):
    """The kind of each operator that was seen, by its id: hashing an operator is a call of Python. `is_free`: operators
    cost nothing.
    """

    def __init__(self, *, is_free: bool) -> None:
        super().__init__()
        self._is_free = is_free
        self._alive: list[Any] = []

    def look_at(self, func: Any) -> int:
        kind = _kind(func)
        kind = self[id(func)] = FREE if self._is_free and kind != VIEW else kind
        self._alive.append(func)
        return kind


class _Costs:
    """(nanoseconds on the stream, nanoseconds to launch, FLOPs) of an operator."""

    def __init__(self, gpu: Gpu, launch_ns: int) -> None:
        self.gpu, self.launch_ns = gpu, launch_ns
        self.known: dict[Any, tuple[int, int, int]] = {}

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[int, int, int]:
        key: list[Any] = [id(func)]  # operators that were seen stay: `_Kinds`
        for value in args:
            if type(value) in _PLAIN:
                key += (value.shape, value.dtype)
            elif type(value) is list or type(value) is tuple:
                key.append(_part_of_key(value))
        if type(out) is torch.Tensor:
            key.append(out.shape)
        known = self.known.get(signature := tuple(key))
        if known is None:
            known = self.known[signature] = self._work_out(func, args, kwargs or {}, out)
        return known

    def _work_out(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[int, int, int]:
        inputs, outputs = list(_tensors((args, tuple(kwargs.values())))), list(_tensors(out))
        flops = count_flops(func, args, kwargs, out)
        dtype = dtype_name(inputs or outputs)
        duration_ns = self.gpu.operator_ns(flops, _bytes_moved(func, inputs, outputs), dtype) - self.launch_ns
        return max(duration_ns, 0), self.launch_ns, flops


def _part_of_key(values: Any) -> Any:
    """What the cost depends on: shapes and dtypes of tensors, sizes; not scalars, which change with every step."""
    try:
        return tuple(map(_shape_and_dtype, values))
    except AttributeError:
        return tuple(
            _shape_and_dtype(value) if isinstance(value, torch.Tensor) else None if type(value) is float else value
            for value in values
        )


_shape_and_dtype = attrgetter("shape", "dtype")


def _kind(func: Any) -> int:
    namespace, _, name = func._schema.name.partition("::")
    if namespace not in _CHARGED_NAMESPACES or name in _FREE:
        return FREE
    if func.is_view or name in _VIEWS:
        return VIEW
    if name in _OF_REDUCER:
        return OF_REDUCER
    return READS if name in _READS else CHARGED


def _kind_of_reducers(func: Any) -> int:
    node = torch._C._current_autograd_node()
    if node is not None and node.name() == "torch::autograd::AccumulateGrad":
        return FREE
    return READS if func._schema.name.endswith("_local_scalar_dense") else CHARGED


def _bytes_moved(func: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> int:
    """What one kernel that does this reads and writes in device memory."""
    name = func._schema.name.rpartition("::")[2]
    written = sum(t.numel() * t.element_size() for t in outputs)
    if name in _COPIES:
        return 2 * written
    read = sum(t.numel() * t.element_size() for t in inputs)
    if name in _OVERWRITES:
        return read if written else 0  # the target is among the inputs: it is written, not read
    return read + (written or read)  # _foreach_*_ return nothing: they write what they read


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
