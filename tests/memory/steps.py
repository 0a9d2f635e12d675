"""Training steps that ranks run under the ledger and torch's own memory trackers at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import fully_shard

from simulator.memory.ledger import Ledger
from simulator.memory.watch import watch
from simulator.rank import group, operations

NUM_STEPS = 2

#: Their words by ours. They call everything that an optimizer step makes its state; they call a gradient temporary
#: until autograd hands it over, and a bucket of DDP an activation: so these are compared as sums.
THEIRS = {
    "Parameter": "parameters",
    "Buffer": "parameters",
    "Sharded Param": "parameters",
    "Optstate": "optimizer",
    "OptState": "optimizer",
    "Unsharded Param": "gathered",
    "All Gather": "gathered",
    "Reduce Scatter": "reduce-scatter",
    "Gradient": "backward",
    "Temp": "backward",
    "Sharded Grad": "backward",
    "Unsharded Grad": "backward",
    "Activation": "forward",
    "Other": "forward",
    "Inputs": "forward",
}


def theirs(tracker: MemTracker, moment: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, num_bytes in tracker.get_tracker_snapshot(moment)[torch.device("cpu")].items():
        if num_bytes and kind != "Total":
            name = THEIRS[kind.value]  # type: ignore[attr-defined]
            found[name] = found.get(name, 0) + num_bytes
    return found


def ours(ledger: Ledger, moment: str, *, sharded: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for holder in ledger.holders(at_peak=moment == "peak"):
        name = {"buffers": "parameters", "optimizer_state": "optimizer", "gradients": "backward"}.get(holder.kind)
        if holder.kind == "temporaries":
            name = "optimizer" if holder.phase == "optimizer" else "backward"
        if holder.kind == "communication":
            name = "reduce-scatter" if sharded else "forward"
        name = name or {"activations": "forward", "other": "forward"}.get(holder.kind, holder.kind)
        found[name] = found.get(name, 0) + holder.num_bytes
    return found


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(64, 32), *(Block(32) for _ in range(2)), nn.Linear(32, 64))


class Moments:
    """What both say at each moment of a step, and the names of what the ledger found of a kind."""

    def __init__(self, ledger: Ledger, tracker: MemTracker, sharded: bool) -> None:
        self._ledger, self._tracker, self._sharded = ledger, tracker, sharded
        self.rows: list[Any] = []
        self.kinds: dict[str, dict[str, int]] = {}

    def look(self, name: str) -> None:
        moment = "peak" if name == "peak" else "current"
        total = self._ledger.peak_bytes if name == "peak" else self._ledger.live_bytes
        mine = ours(self._ledger, moment, sharded=self._sharded)
        self.rows.append([name, total, mine, theirs(self._tracker, moment)])
        self.kinds[name] = self._ledger.by_kind(at_peak=name == "peak")


def train(net: nn.Module, optimizer: torch.optim.Optimizer, moments: Moments, tracker: MemTracker) -> dict[str, Any]:
    for _ in range(NUM_STEPS):
        tokens = torch.randint(64, (4, 17))
        logits = net(tokens[:, :-1])
        moments.look("forward")
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        moments.look("backward")
        optimizer.step()
        moments.look("step")
        optimizer.zero_grad()
        moments.look("peak")
        tracker.reset_mod_stats()
    return {"rows": moments.rows, "kinds": moments.kinds}


def tell_collectives(ledger: Ledger) -> None:
    """The ledger hears of collectives."""
    issue = group._issue

    def told(where: Any, method: str, args: Any, kwargs: Any) -> Any:
        ledger.collective(operations.OPERATIONS[method].op, operations.tensors(args), operations.outputs(method, args))
        return issue(where, method, args, kwargs)

    group._issue = told


def ddp() -> dict[str, Any]:
    """Both from before the model is made, so that both see the reducer make its buckets."""
    tracker = MemTracker()
    with watch() as ledger, tracker:
        tell_collectives(ledger)
        net = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.02)
        optimizer = torch.optim.AdamW(net.parameters())
        return train(net, optimizer, Moments(ledger, tracker, False), tracker)


def fsdp2() -> dict[str, Any]:
    """torch's tracker wants a model that is sharded already."""
    net = model()
    for part in net:
        fully_shard(part)
    fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters())
    with watch() as ledger:
        tell_collectives(ledger)
        tracker = FSDPMemTracker(net, optimizer)
        ledger.adopt(net, optimizer)
        with tracker:
            return train(net, optimizer, Moments(ledger, tracker, True), tracker)


def dropped() -> int:
    """How often a tensor outlived its last name after a collective."""
    import weakref

    num_late = 0
    for _ in range(100):
        tensor = torch.ones(1000)
        storage = weakref.ref(tensor.untyped_storage())
        dist.all_reduce(tensor, async_op=True).wait()
        del tensor
        num_late += storage() is not None
    return num_late


def too_large() -> str:
    """A rank that catches the error as it would catch CUDA's, and says what it read."""
    with watch(limit_bytes=1 << 20) as ledger:
        ledger.where = lambda: f"rank {dist.get_rank()}"
        try:
            nn.parallel.DistributedDataParallel(nn.Linear(512, 300))
        except torch.OutOfMemoryError as error:
            return str(error)
    return ""
