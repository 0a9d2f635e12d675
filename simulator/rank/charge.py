"""What every operator of a rank costs in virtual time, charged as it runs: forward, backward and optimizer alike.

A dispatch mode sees each operator below autograd. Its cost follows from its FLOPs and the bytes that it has to move
(`Gpu.operator_ns`), which follow from shapes and dtypes: so it is worked out once for each (operator, shapes) and is
the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from simulator.flops import count_flops
from simulator.rank.operations import dtype_name

if TYPE_CHECKING:
    from simulator.cluster import Gpu
    from simulator.rank.clock import RankThread
    from simulator.rank.context import Context

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_COPIES = ("embedding", "index_select", "gather", "index", "select_copy", "slice_copy", "cat", "stack")
_OVERWRITES = ("copy_", "zero_", "fill_", "normal_", "uniform_", "_foreach_copy_", "_foreach_zero_", "bernoulli_")
_FREE = frozenset(
    (
        *("alias", "detach", "lift", "lift_fresh", "set_", "resize_", "_unsafe_view", "_reshape_alias"),
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
    """There torch's optimizers and `clip_grad_norm_` work on all tensors at once (foreach) unless told otherwise."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    modules: tuple[Any, ...] = (optimizer, _foreach_utils)
    for module in modules:
        devices = module._get_foreach_kernels_supported_devices
        module._get_foreach_kernels_supported_devices = lambda devices=devices: [*devices(), "cpu"]


class Charging(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Pushed once in every registered thread of a rank: moves its clock, and tells its ledger of memory."""

    def __init__(self, ctx: Context, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ctx, self.ledger = ctx, ctx.ledger
        self.is_free = gpu.is_free
        self.launch_ns = round(gpu.launch_overhead_us * 1e3)
        self.cost = _Costs(gpu, self.launch_ns)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch wraps the next method in one that costs as much again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and not all(t in _PLAIN for t in types):
            if FakeTensor in types:  # DTensor asks for shapes: nothing runs
                return func(*args, **kwargs or {})
            return NotImplemented  # DTensor and the like: come back with the local tensors
        out = func(*args, **kwargs) if kwargs else func(*args)
        thread = self.ctx.thread
        if not thread.is_ours:  # the simulator's own arithmetic costs the rank nothing
            if not self.is_free:
                self._charge(thread, *self.cost(func, args, kwargs, out))
            if self.ledger is not None:
                self.ledger.operator(func, args, kwargs or {}, out)
        return out

    def _charge(self, thread: RankThread, flops: int, duration_ns: int) -> None:
        if duration_ns >= 0:
            self.ctx.charge(duration_ns, self.launch_ns, flops)
        elif duration_ns == READS:
            thread.advance(thread.now_ns)


#: In the place of a duration: costs nothing; the host waits for a value; see `_OF_REDUCER`.
FREE, READS, OF_REDUCER = -1, -2, -3


class _Costs:
    """(FLOPs, nanoseconds on the stream) of an operator."""

    def __init__(self, gpu: Gpu, launch_ns: int) -> None:
        self.gpu, self.launch_ns = gpu, launch_ns
        self.kind: dict[Any, int] = {}
        self.known: dict[Any, tuple[int, int]] = {}

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[int, int]:
        kind = self.kind.get(func)
        if kind is None:
            kind = self.kind[func] = _kind(func)
        if kind == OF_REDUCER:
            kind = FREE if _in_accumulate_grad() else READS if func._schema.name.endswith("_local_scalar_dense") else 0
        if kind < 0:
            return 0, kind
        key = [func]
        for value in args:
            if type(value) in _PLAIN:
                key += (value.shape, value.dtype)
            elif type(value) is list or type(value) is tuple:
                key += [(item.shape, item.dtype) if isinstance(item, torch.Tensor) else item for item in value]
        if type(out) is torch.Tensor:
            key.append(out.shape)
        known = self.known.get(signature := tuple(key))
        if known is None:
            known = self.known[signature] = self._work_out(func, args, kwargs or {}, out)
        return known

    def _work_out(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[int, int]:
        inputs, outputs = list(_tensors((args, tuple(kwargs.values())))), list(_tensors(out))
        flops = count_flops(func, args, kwargs, out)
        dtype = dtype_name(inputs or outputs)
        return flops, self.gpu.operator_ns(flops, _bytes_moved(func, inputs, outputs), dtype) - self.launch_ns


def _kind(func: Any) -> int:
    namespace, _, name = func._schema.name.partition("::")
    if namespace not in _CHARGED_NAMESPACES or name in _FREE or func.is_view:
        return FREE
    if name in _OF_REDUCER:
        return OF_REDUCER
    return READS if name in _READS else 0


def _in_accumulate_grad() -> bool:
    node = torch._C._current_autograd_node()
    return node is not None and node.name() == "torch::autograd::AccumulateGrad"


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
