"""What each layer of a model saves for its backward, and what it would give and cost to recompute it instead.

One forward pass is observed: autograd tells of every tensor that it saves (`saved_tensors_hooks`), the ledger which
storages live on after it. A layer's savings are distinct storages, however many views of them were saved; parameters,
buffers, the batch and what is made elsewhere do not count, because they live on anyway.

The pass runs on fake tensors: nothing is computed, no running statistic and no random state changes, and a model on the
meta device that no laptop could hold is profiled in seconds.

**Freed** is exact for torch's non-reentrant `checkpoint` around that one layer: what only this layer saved goes; what
others saved too, and the model's output, stays; the layer's inputs are kept, so an input that nobody had saved costs.
**Recompute FLOPs** stop where checkpoint stops early: at the last tensor that the layer saves.

Sources: torch.autograd.graph.saved_tensors_hooks; torch.utils.checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from simulator.errors import UsageError
from simulator.flops import count_flops
from simulator.memory.labels import storages
from simulator.memory.layers import LayerMemory, MemoryProfile
from simulator.memory.ledger import Ledger
from simulator.memory.places import Places
from simulator.memory.record import OTHER, Record

LOSS = "(loss)"
NO_WORKSPACE = (
    "recurrent layers: the workspace that their kernel keeps for backward is not counted; real=True counts oneDNN's"
)


_RNN = torch.ops.aten.mkldnn_rnn_layer.default


@dataclass
class _Call:
    """One call of a module: which saves happened inside it, and the FLOPs at its start, last save and end."""

    first_save: int
    first_flops: int
    inputs: list[Record]
    versions: list[tuple[torch.Tensor, int]]
    end_save: int = 0
    last_save_flops: int = 0
    end_flops: int = 0
    is_changing_input: bool = False


@dataclass
class _Layer:
    kind: str
    calls: list[_Call] = field(default_factory=list)

    def contains(self, save: int) -> bool:
        return any(call.first_save <= save < call.end_save for call in self.calls)


class _Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows one forward pass. Enter it last, so that it sees an operator before fake tensors handle it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ledger = Ledger(Places(), counts_fakes=True)
        self.flops = 0
        self.has_unknown_workspace = False
        self.saves: list[Record | None] = []  # in order; None: something that lives on anyway
        self.layers: dict[str, _Layer] = {}
        self._open: list[_Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for record in self.ledger.enter_unseen(tree_leaves((args, kwargs))):
            record.kind = OTHER  # it was there before, and lives on anyway
        out = func(*args, **(kwargs or {}))
        self.ledger.operator(func, args, kwargs or {}, out)
        self.has_unknown_workspace |= func is _RNN and isinstance(out[0], FakeTensor)
        self.flops += count_flops(func, args, kwargs or {}, out)
        return out

    def save(self, tensor: torch.Tensor) -> torch.Tensor:
        """Autograd saves a tensor."""
        found = self._made_here([tensor])
        self.saves.append(found[0] if found else None)
        for call in self._open:
            call.last_save_flops = self.flops
        return tensor

    def _made_here(self, tensors: Iterable[torch.Tensor]) -> list[Record]:
        return [record for record in self.ledger.records(tensors) if record.kind != OTHER]

    def _is_asked(self) -> bool:
        """Whether what autograd saves now comes to `save`: not so in a checkpointed region, and without gradients."""
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
        return torch.is_grad_enabled() and hooks is not None and hooks[0] == self.save

    @contextmanager
    def layer(self, name: str, kind: str, inputs: Any) -> Iterator[None]:
        """What happens inside belongs to a layer."""
        self.begin(name, kind, inputs)
        try:
            yield
        finally:
            self.end()

    def begin(self, name: str, kind: str, inputs: Any) -> None:
        tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        versions = [(tensor, tensor._version) for tensor in tensors if not tensor.is_inference()]
        inputs = self._made_here(tensors) if self._is_asked() else []  # inside a checkpoint nothing more is kept
        call = _Call(len(self.saves), self.flops, inputs, versions, last_save_flops=self.flops)
        self.layers.setdefault(name, _Layer(kind)).calls.append(call)
        self._open.append(call)

    def end(self) -> None:
        call = self._open.pop()
        call.end_save, call.end_flops = len(self.saves), self.flops
        call.is_changing_input = any(tensor._version != version for tensor, version in call.versions)
        call.versions = []

    @contextmanager
    def following(self, module: nn.Module) -> Iterator[None]:
        """Hooks on every part of a module, for as long as the context lasts."""
        with ExitStack() as stack:
            for path, part in module.named_modules():
                name, kind = path or type(module).__name__, type(part).__name__
                before = part.register_forward_pre_hook(self._before(name, kind), prepend=True, with_kwargs=True)
                after = part.register_forward_hook(lambda *_: self.end(), always_call=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self.save, lambda tensor: tensor))
            self.ledger.places.install()
            stack.callback(self.ledger.places.remove)
            stack.enter_context(self)
            yield

    def _before(self, name: str, kind: str) -> Callable[..., None]:
        return lambda _, args, kwargs: self.begin(name, kind, (args, kwargs))


def profile(module: nn.Module, batch: Any, loss: Callable[[Any], torch.Tensor] | None, real: bool) -> MemoryProfile:
    """See `simulator.memory_profile`."""
    observer = _Observer()
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError(
            "memory_profile: no parameter of the module requires a gradient, so nothing is saved for backward"
        )
    with torch.enable_grad():
        out = (_run_real if real else _run_fake)(observer, module, batch, loss)
    result = _result(observer, module, out)
    del out
    return result


def _forward(observer: _Observer, call: Callable[..., Any], batch: Any, loss: Any) -> Any:
    out = call(*batch) if isinstance(batch, tuple | list) else call(**batch) if isinstance(batch, dict) else call(batch)
    if loss is None:
        return out
    with observer.layer(LOSS, "", out):
        return loss(out)


def _run_fake(observer: _Observer, module: nn.Module, batch: Any, loss: Any) -> Any:
    """The module's own tensors are replaced by fake ones for this one call."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    modes = [t.fake_mode for t in tree_leaves((tensors, batch)) if isinstance(t, FakeTensor)]
    mode = modes[0] if modes else FakeTensorMode(allow_non_fake_inputs=True)
    tensors, batch = tree_map_only(torch.Tensor, lambda t: _fake(mode, t), (tensors, batch))

    def call(*args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(module, tensors, args, kwargs)

    try:
        with mode, observer.following(module):
            return _forward(observer, call, batch, loss)
    except torch._subclasses.fake_tensor.DataDependentOutputException as error:
        raise UsageError(
            f"memory_profile: the model looks at values ({error.func}), which fake tensors do not have: "
            "give real=True with a model and batch small enough to run"
        ) from None


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, FakeTensor):
        return tensor
    if tensor.is_meta:  # as a CPU tensor, so that attention chooses the kernel that it would choose for a real one
        with mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    else:
        fake = mode.from_tensor(tensor, static_shapes=True)
    return fake.detach().requires_grad_(tensor.requires_grad)


def _run_real(observer: _Observer, module: nn.Module, batch: Any, loss: Any) -> Any:
    """Buffers and the random state are put back."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]), observer.following(module):
            return _forward(observer, module, batch, loss)
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                if name in before:
                    buffer.copy_(before[name])


def _result(observer: _Observer, module: nn.Module, out: Any) -> MemoryProfile:
    ledger = observer.ledger
    saves = [record if record is not None and ledger.is_live(record) else None for record in observer.saves]
    outputs = {id(r) for r in ledger.records([t for t in tree_leaves(out) if isinstance(t, torch.Tensor)])}
    saved = {id(record) for record in saves if record is not None}
    held = [r for r in ledger.live() if r.kind != OTHER and id(r) not in saved and id(r) not in outputs]
    layers = []
    for name, layer in observer.layers.items():
        inside = _distinct(record for i, record in enumerate(saves) if record and layer.contains(i))
        also = [r for r in held if _is_in(r.module, name, module)]
        layers.append(
            LayerMemory(
                name=name,
                kind=layer.kind,
                calls=len(layer.calls),
                saved_bytes=sum(r.num_bytes for r in inside + also),
                held_bytes=sum(r.num_bytes for r in also),
                freed_bytes=_freed(layer, inside, saves, outputs),
                flops=sum(call.end_flops - call.first_flops for call in layer.calls),
                recompute_flops=sum(call.last_save_flops - call.first_flops for call in layer.calls),
                is_changing_input=any(call.is_changing_input for call in layer.calls),
            )
        )
    notes = (NO_WORKSPACE,) if observer.has_unknown_workspace else ()
    total = sum(r.num_bytes for r in _distinct(filter(None, saves)) + held)
    weights = {s._cdata: s.nbytes() for p in module.parameters() for s in storages(p)}
    return MemoryProfile(type(module).__name__, total, sum(weights.values()), tuple(layers), notes)


def _distinct(records: Iterable[Record]) -> list[Record]:
    return list({id(record): record for record in records}.values())


def _is_in(path: str, layer: str, root: nn.Module) -> bool:
    return layer == type(root).__name__ or path == layer or path.startswith(f"{layer}.")


def _freed(layer: _Layer, inside: list[Record], saves: list[Record | None], outputs: set[int]) -> int:
    outside = {id(record) for i, record in enumerate(saves) if record and not layer.contains(i)}
    inputs = {id(record): record for call in layer.calls for record in call.inputs}
    kept = outside | inputs.keys() | outputs
    gone = sum(record.num_bytes for record in inside if id(record) not in kept)
    saved = outside | {id(record) for record in inside} | outputs
    return gone - sum(record.num_bytes for key, record in inputs.items() if key not in saved)
