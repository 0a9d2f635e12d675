"""What storages are used for: found by looking at modules and optimizers, when somebody asks.

Looking is cheap and rare (a new peak, a question, an error), so no parameter carries a hook. Parameters and buffers are
also known when a module registers them, which names them even before the first forward.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from simulator.memory.places import Places
from simulator.memory.record import BUFFERS, GATHERED, GRADIENTS, OPTIMIZER_STATE, PARAMETERS, Record


class Label(NamedTuple):
    """What a tensor is for."""

    kind: str
    name: str
    module: str


def plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor itself if it has a storage; the inner tensors of a DTensor or another wrapper."""
    if type(tensor) not in (torch.Tensor, nn.Parameter) and is_traceable_wrapper_subclass(tensor):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]  # tensors, and a device mesh
        for part in inner:
            if isinstance(part, torch.Tensor):
                yield from plain(part)
    elif tensor.layout is torch.strided:
        yield tensor


def storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages that hold a tensor's values."""
    for part in plain(tensor):
        yield part.untyped_storage()


class Labels:
    """The modules and optimizers of this process, as far as they are known."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._modules: dict[int, weakref.ref[nn.Module]] = {}
        self._optimizers: dict[int, weakref.ref[torch.optim.Optimizer]] = {}
        self._hooks: list[Any] = []

    def know(self, things: Iterable[Any]) -> bool:
        """Remembers modules and optimizers. Returns whether one was new."""
        is_new = False
        for thing in things:
            if isinstance(thing, nn.Module):
                for part in thing.modules():
                    is_new |= _remember(self._modules, part)
            elif isinstance(thing, torch.optim.Optimizer):
                is_new |= _remember(self._optimizers, thing)
        return is_new

    def tensors(self, things: Iterable[Any]) -> Iterator[Any]:
        """All tensors of modules and optimizers; tensors are themselves."""
        for thing in things:
            if isinstance(thing, nn.Module):
                yield from (tensor for part in thing.modules() for _, tensor in _of_module(part, ""))
            elif isinstance(thing, torch.optim.Optimizer):
                yield from (tensor for _, tensor in _of_optimizer(thing, {}))
            else:
                yield thing

    def apply(self, live: dict[int, Record]) -> None:
        """Writes kind, name and module into the records of everything that modules and optimizers hold."""
        names: dict[int, Label] = {}
        for module in _alive(self._modules):
            path = self._places.path(module)
            for label, tensor in _of_module(module, path if path is not None else type(module).__name__):
                if label.kind == PARAMETERS:
                    names[id(tensor)] = label
                _write(live, label, tensor)
        for optimizer in _alive(self._optimizers):
            for label, tensor in _of_optimizer(optimizer, names):
                _write(live, label, tensor)

    # ---- hooks ----
    def install(self) -> None:
        """From now on modules are known when they register a parameter or a buffer."""
        self._hooks = [
            register_module_parameter_registration_hook(self._registered),
            register_module_buffer_registration_hook(self._registered),
        ]

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _registered(self, module: nn.Module, *_: Any) -> None:
        _remember(self._modules, module)


def _of_module(module: nn.Module, path: str) -> Iterator[tuple[Label, Any]]:
    start, shown = f"{path}." if path else "", path or type(module).__name__
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield from _of_parameter(parameter, Label(PARAMETERS, f"{start}{name}", shown))
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield Label(BUFFERS, f"{start}{name}", shown), buffer


def _of_parameter(parameter: torch.Tensor, label: Label) -> Iterator[tuple[Label, Any]]:
    yield label, parameter
    if parameter.grad is not None:
        yield Label(GRADIENTS, f"{label.name}.grad", label.module), parameter.grad


def _of_optimizer(optimizer: torch.optim.Optimizer, names: dict[int, Label]) -> Iterator[tuple[Label, Any]]:
    for g, group in enumerate(optimizer.param_groups):
        for p, parameter in enumerate(group["params"]):
            label = names.get(id(parameter), Label(PARAMETERS, f"param_groups[{g}]['params'][{p}]", ""))
            yield from _of_parameter(parameter, label)
            for key, value in optimizer.state.get(parameter, {}).items():
                yield Label(OPTIMIZER_STATE, f"{label.name} {key}", label.module), value


def _write(live: dict[int, Record], label: Label, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        return
    for storage in storages(tensor):
        record = live.get(storage._cdata)
        if record is not None and record.kind != GATHERED:  # FSDP2 shows a gathered parameter as the parameter
            record.kind, record.name, record.module = label


def _remember(known: dict[int, weakref.ref[Any]], thing: Any) -> bool:
    found = known.get(id(thing))
    if found is not None and found() is thing:
        return False
    known[id(thing)] = weakref.ref(thing)
    return True


def _alive(known: dict[int, weakref.ref[Any]]) -> list[Any]:
    for key in [key for key, ref in known.items() if ref() is None]:
        del known[key]
    return [thing for ref in known.values() if (thing := ref()) is not None]
