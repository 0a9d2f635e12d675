"""The ledger of a rank's memory: every live tensor storage, its bytes, and where it came from.

`Ledger.operator` is called after every operator below autograd, so forward, backward, recomputation and optimizer are
all seen, and so is what C++ allocates through the dispatcher (DDP's buckets). Only outputs are looked at: a storage
that is new is entered; views and in-place results are known already. A storage leaves the ledger when it is freed or
resized to nothing.

**Bytes are the bytes that were asked for.** CUDA's caching allocator rounds every block up to 512 bytes, and keeps what
is freed; neither is added here: compare with `torch.cuda.memory_allocated`, not with nvidia-smi.

**When a storage dies.** Reference counts are exact. Storages in reference cycles die when Python's cycle collector
runs: `simulator.memory.cycles` makes that a fixed point of the program. A storage that a thread of gloo's still holds
dies a little later, by the real clock: `simulator.rank.payloads` waits for it.

Not seen: memory that is no tensor storage (Python objects, workspaces inside a kernel), and operators on DTensors as
such, whose local operators are seen instead.

Source of the method: torch.distributed._tools.mem_tracker, with which the tests compare every number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from simulator.memory import fsdp
from simulator.memory.holders import Holder, holder, sum_by_kind
from simulator.memory.labels import Labels, plain, storages
from simulator.memory.limit import out_of_memory
from simulator.memory.places import BACKWARD, FORWARD, OUTSIDE, Places
from simulator.memory.record import COMMUNICATION, GATHERED, PARAMETERS, Record


class Ledger:
    """Live storages of this process.

    Attributes:
        live_bytes: now. peak_bytes: the most since the start or since `reset_peak`.
        limit_bytes: what would take more than this raises `VirtualOutOfMemory` instead.
        counts_fakes: whether tensors of the meta device and fake tensors count as if they were real.
        where: words for an out-of-memory error about who this is, such as "rank 2, step 3".
    """

    def __init__(
        self,
        places: Places,
        *,
        limit_bytes: float = float("inf"),
        where: Callable[[], str] = lambda: "",
        counts_fakes: bool = False,
    ) -> None:
        self._counts_fakes = counts_fakes
        self.places, self.limit_bytes, self.where = places, limit_bytes, where
        self.live_bytes = self.peak_bytes = 0
        self._live: dict[int, Record] = {}
        self._peak: dict[int, Record] = {}
        self._is_peak = self._has_new_peak = False
        self._labels = Labels(places)
        self._resize: Any = None

    # ---- what happened ----
    def operator(self, func: OpOverload, args: Any, kwargs: Any, out: Any) -> None:
        """Enters the storages that an operator made. Raises `VirtualOutOfMemory` above the limit."""
        if isinstance(out, torch.Tensor):
            self._see(func, args, out)
            return
        if type(out) is tuple or type(out) is list:
            for tensor in out:
                if isinstance(tensor, torch.Tensor):
                    self._see(func, args, tensor)
        if (rule := fsdp.RULES.get(func._name)) is not None:
            rule(self.mark, args, kwargs)

    def collective(self, op: str, inputs: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor]) -> None:
        """Notes the payloads of a collective (`op` by torch's name): what gathers parameters is `gathered`, and what is
        nothing else is a communication buffer.
        """
        ins, outs, phase = self.records(inputs), self.records(outputs), self.places.phase()
        for record in ins + outs:
            record.is_payload = True
            if phase == BACKWARD and record.phase == FORWARD:  # DDP makes its buckets anew in the second forward
                record.kind = record.kind or COMMUNICATION
        if op.startswith("all_gather") and any(record.kind == PARAMETERS for record in ins):
            for record in outs:
                record.kind = record.kind or GATHERED

    def mark(self, kind: str, tensors: Iterable[torch.Tensor]) -> None:
        """Says what storages are for; what has a kind keeps it."""
        for record in self.records(tensors):
            record.kind = record.kind or kind

    def adopt(self, *things: nn.Module | torch.optim.Optimizer | torch.Tensor) -> None:
        """Enters what may have been made unseen (in C++, or before the ledger): parameters, buffers, gradients and
        optimizer states of `things`, and tensors.
        """
        self.enter_unseen(self._labels.tensors(things))
        self._labels.know(things)
        self._labels.apply(self._live)

    def enter_unseen(self, values: Iterable[Any]) -> list[Record]:
        """Enters the tensors among `values` that the ledger does not know. Returns their records."""
        return [
            self._enter(part.untyped_storage(), part, None, ())
            for value in values
            if isinstance(value, torch.Tensor)
            for part in plain(value)
            if self._has_memory(part) and part.untyped_storage()._cdata not in self._live
        ]

    def _see(self, func: OpOverload | None, args: Any, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        record = self._live.get(storage._cdata)
        if record is None:
            if self._has_memory(tensor):
                self._enter(storage, tensor, func, args)
        elif record.num_bytes != storage.nbytes():  # an operator that resizes, such as one with out=
            self._change(record, storage, storage.nbytes())

    def _enter(self, storage: torch.UntypedStorage, tensor: torch.Tensor, func: OpOverload | None, args: Any) -> Record:
        record = Record(storage, self._free)
        record.key, record.num_bytes = storage._cdata, storage.nbytes()
        record.func, record.shape, record.dtype = func, tensor.shape, tensor.dtype
        record.kind, record.name, record.is_payload = None, "", False
        record.phase, record.module = self.places.here()
        if record.phase == OUTSIDE and _needs_gradient(args):
            record.phase = FORWARD  # a loss, say, that the program computes outside its modules
        self._add(record)
        return record

    def _has_memory(self, tensor: torch.Tensor) -> bool:
        """Not so: tensors of the meta device, fake ones (DTensor computes with them what shapes will be), and wrappers
        around other tensors, which are seen themselves.
        """
        if type(tensor) is torch.Tensor and not tensor.is_meta:
            return True
        if isinstance(tensor, FakeTensor) or tensor.is_meta:
            return self._counts_fakes
        return not hasattr(tensor, "__tensor_flatten__")

    # ---- bytes ----
    def _add(self, record: Record) -> None:
        live_bytes = self.live_bytes + record.num_bytes
        if live_bytes > self.limit_bytes:
            raise out_of_memory(self, record)
        self._live[record.key], self.live_bytes = record, live_bytes
        if live_bytes > self.peak_bytes:
            self.peak_bytes, self._is_peak = live_bytes, True

    def _free(self, record: Record) -> None:
        """A storage died, or shrank; called by Python when the last reference goes."""
        if self._live.get(record.key) is record:
            if self._is_peak:
                self._keep_peak()
            del self._live[record.key]
            self.live_bytes -= record.num_bytes

    def _keep_peak(self) -> None:
        """Remembers what is live, when the first of it is freed: while memory only grows there is nothing to copy."""
        self._peak, self._is_peak, self._has_new_peak = self._live.copy(), False, True

    def _change(self, old: Record, storage: torch.UntypedStorage, num_bytes: int) -> None:
        """A storage has, or is about to have, another size."""
        new = Record(storage, self._free)
        for name in Record.__slots__:
            setattr(new, name, getattr(old, name))
        new.num_bytes = num_bytes
        self._free(old)
        self._add(new)

    def reset_peak(self) -> None:
        """Starts the search for the peak again, from what is live now."""
        self.peak_bytes, self._is_peak = self.live_bytes, True

    # ---- answers ----
    def holders(self, *, at_peak: bool = False) -> list[Holder]:
        """Every storage that is live, or was at the peak: the largest first, then by name."""
        self._labels.apply(self._live)
        if self._is_peak:
            self._keep_peak()
        found = [holder(record) for record in (self._peak if at_peak else self._live).values() if record.num_bytes]
        return sorted(found, key=lambda h: (-h.num_bytes, h.kind, h.name, h.shape))

    def by_kind(self, *, at_peak: bool = False) -> dict[str, int]:
        """Bytes by kind (all of `simulator.memory.record.KINDS`, in that order), now or at the peak."""
        return sum_by_kind(self.holders(at_peak=at_peak))

    def by_module(self, *, at_peak: bool = False) -> dict[str, int]:
        """Bytes by the path of the module that made them ("" for none), the largest first."""
        found: dict[str, int] = {}
        for each in self.holders(at_peak=at_peak):
            found[each.module] = found.get(each.module, 0) + each.num_bytes
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def live(self) -> list[Record]:
        """Records of what is live, in the order in which it was made."""
        return list(self._live.values())

    def is_live(self, record: Record) -> bool:
        """Whether the storage of a record is still there, in the same size."""
        return self._live.get(record.key) is record

    def records(self, tensors: Iterable[torch.Tensor]) -> list[Record]:
        """Records of the storages of tensors, without those that the ledger does not know."""
        records = [self._live.get(storage._cdata) for tensor in tensors for storage in storages(tensor)]
        return [record for record in records if record is not None]

    # ---- hooks ----
    def install(self) -> Ledger:
        """Follows module calls, optimizer steps and `UntypedStorage.resize_`, with which FSDP2 frees and takes back
        full parameters without an operator.
        """
        self.places.on_module, self.places.on_optimizer = self.adopt, self._at_step
        resize = self._resize = torch.UntypedStorage.resize_

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            record = self._live.get(storage._cdata)
            if record is not None and record.num_bytes != size:
                self._change(record, storage, size)
            return resize(storage, size)

        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]
        self._labels.install()
        return self

    def remove(self) -> None:
        """Takes the hooks away again."""
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        self._labels.remove()

    def _at_step(self, optimizer: torch.optim.Optimizer, begins: bool) -> None:
        """Gradients are surest known before a step, states after it: labelled when the peak moved since."""
        is_new = self._labels.know((optimizer,))
        if is_new or self._is_peak or self._has_new_peak:
            self._labels.apply(self._live)
            self._has_new_peak = begins


def _needs_gradient(args: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    for arg in args:
        if isinstance(arg, torch.Tensor):
            if arg.requires_grad:
                return True
        elif isinstance(arg, list | tuple) and _needs_gradient(arg):
            return True
    return False
