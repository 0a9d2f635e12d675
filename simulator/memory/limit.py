"""`VirtualOutOfMemory`: what a GPU with so much memory would have raised at this allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from simulator import errors
from simulator.memory.holders import holder, largest, sum_by_kind
from simulator.memory.record import Record
from simulator.memory.units import size

if TYPE_CHECKING:
    from simulator.memory.ledger import Ledger


class VirtualOutOfMemory(errors.VirtualOutOfMemory, torch.OutOfMemoryError):
    """The memory limit of the run: ours by name, PyTorch's by class, so that code which catches CUDA's works."""


def out_of_memory(ledger: Ledger, wanted: Record) -> VirtualOutOfMemory:
    """The error for an allocation that does not fit: what was wanted by whom, and what is in the way."""
    where = ledger.where()
    free = max(0, int(ledger.limit_bytes) - ledger.live_bytes)
    held = ledger.holders()
    kinds = ", ".join(f"{size(n)} {kind.replace('_', ' ')}" for kind, n in sum_by_kind(held).items() if n)
    module = f" in {wanted.module}" if wanted.module else ""
    phase = f" ({wanted.phase})" if wanted.phase else ""
    lines = [
        f"Virtual GPU out of memory{' on ' + where if where else ''}. Tried to allocate {size(wanted.num_bytes)} for "
        f"{holder(wanted).name.partition(' in ')[0]}{module}{phase}. The GPU has {size(ledger.limit_bytes)}, of which "
        f"{size(free)} is free; {size(ledger.live_bytes)} is held by tensors: {kinds or 'nothing'}.",
        "Largest holders:",
        *(f"  {line}" for line in largest(held)),
    ]
    return VirtualOutOfMemory("\n".join(lines))
