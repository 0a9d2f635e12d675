"""One live storage in the ledger, and the kinds that storages are of."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from simulator.memory.places import FORWARD, OUTSIDE, RECOMPUTE

if TYPE_CHECKING:
    import torch

PARAMETERS, BUFFERS, GRADIENTS, OPTIMIZER_STATE = "parameters", "buffers", "gradients", "optimizer_state"
ACTIVATIONS, GATHERED, COMMUNICATION = "activations", "gathered", "communication"
TEMPORARIES, OTHER = "temporaries", "other"

#: In the order in which tables list them.
KINDS = {
    PARAMETERS: "parameters of modules, or what an optimizer updates; with FSDP the shard",
    BUFFERS: "buffers of modules, such as the running statistics of batch norm",
    GRADIENTS: "what is in .grad of a parameter; with FSDP2 also the unsharded gradients",
    OPTIMIZER_STATE: "tensors in the state of an optimizer",
    ACTIVATIONS: "made by forward, or made again by recomputation",
    GATHERED: "full parameters, gathered from shards, and the buffers of that all-gather",
    COMMUNICATION: "payloads of collectives that are none of the above: DDP's buckets, FSDP2's reduce-scatter buffers",
    TEMPORARIES: "made by backward or by an optimizer step, and none of the above",
    OTHER: "made elsewhere: batches, values that are logged",
}


class Record(weakref.ref["torch.UntypedStorage"]):
    """A storage's entry. It does not keep the storage alive; it may outlive it in the picture of a peak.

    `kind` is what the storage turned out to be used for, None while nobody knows: then the phase decides.
    """

    __slots__ = ("dtype", "func", "is_payload", "key", "kind", "module", "name", "num_bytes", "phase", "shape")
    key: int
    num_bytes: int
    phase: str
    module: str
    func: Any
    shape: tuple[int, ...]
    dtype: torch.dtype
    kind: str | None
    name: str
    is_payload: bool

    @property
    def its_kind(self) -> str:
        """One of `KINDS`."""
        if self.kind is not None:
            return self.kind
        if self.phase in (FORWARD, RECOMPUTE):
            return ACTIVATIONS
        if self.is_payload:
            return COMMUNICATION
        return OTHER if self.phase == OUTSIDE else TEMPORARIES
