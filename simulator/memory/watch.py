"""A ledger without a run: `with watch() as ledger:` follows what this thread does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from simulator.memory.ledger import Ledger
from simulator.memory.places import Places


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, ledger: Ledger) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = ledger

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its local operators come here instead
        out = func(*args, **(kwargs or {}))
        self._ledger.operator(func, args, kwargs or {}, out)
        return out


@contextmanager
def watch(*, limit_bytes: float = float("inf")) -> Iterator[Ledger]:
    """Keeps a ledger of this thread's tensors; modules and tensors from before are entered when they are used, or with
    `Ledger.adopt`. Raises `VirtualOutOfMemory` inside, above `limit_bytes`.
    """
    places = Places().install()
    ledger = Ledger(places, limit_bytes=limit_bytes).install()
    try:
        with _Mode(ledger):
            yield ledger
    finally:
        ledger.remove()
        places.remove()
