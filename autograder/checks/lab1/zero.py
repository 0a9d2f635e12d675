"""What ranks hold under DDP and ZeRO-1, 2, 3 after a real step, counted tensor by tensor. Imported in ranks only.

Replicas and ZeRO-3 are torch's own where the convention allows it (DistributedDataParallel, fully_shard). ZeRO-1 and 2
are written out here, because torch has none that cuts evenly: the flat vector is padded to equal shards (Rajbhandari et
al. 2020, arXiv:1910.02054).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from autograder.checks.lab1.conventions import CONVENTIONS
from autograder.checks.lab1.toy import held

_DTYPES = {2: torch.bfloat16, 4: torch.float32}

Shapes = tuple[tuple[int, ...], ...]


class Held(NamedTuple):
    """Bytes of one rank after a step."""

    parameters: int
    gradients: int
    optimizer: int


class _Bag(nn.Module):
    """Parameters of given shapes, each of which gets a gradient."""

    def __init__(self, shapes: Shapes, dtype: torch.dtype) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in shapes)

    def forward(self) -> Tensor:
        """A loss that depends on everything."""
        return torch.stack([weight.square().sum().float() for weight in self.weights]).sum()


def held_by(shapes: Shapes, combinations: list[tuple[int, str]]) -> list[list[int]]:
    """For each (ZeRO stage, convention): bytes of parameters, gradients, optimizer state on this rank after a step."""
    return [list(_step(shapes, zero, convention)) for zero, convention in combinations]


def _step(shapes: Shapes, zero: int, convention: str) -> Held:
    if zero == 3 or (zero == 0 and convention == "fp32"):
        return _with_torch(shapes, zero, _DTYPES[CONVENTIONS[convention].weights])
    return _written_out(shapes, zero, convention)


def _with_torch(shapes: Shapes, zero: int, dtype: torch.dtype) -> Held:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    bag: nn.Module = _Bag(shapes, dtype)
    if zero == 3:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        # gloo does not add numbers of 16 bits: gradients travel in 32 and are stored in 16
        fully_shard(bag, mesh=mesh, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32))
    else:
        bag = nn.parallel.DistributedDataParallel(bag)
    optimizer = torch.optim.AdamW(bag.parameters(), 1e-3, foreach=False)
    bag().backward()
    optimizer.step()
    return Held(**held(bag, optimizer))


def _written_out(shapes: Shapes, zero: int, convention: str) -> Held:
    """One step with whole parameters on every rank; gradients and optimizer state whole or in equal shards."""
    says, ranks, rank = CONVENTIONS[convention], dist.get_world_size(), dist.get_rank()
    bag = _Bag(shapes, _DTYPES[says.weights])
    bag().backward()
    gradients = _flat([p.grad for p in bag.weights if p.grad is not None], ranks)
    shard = len(gradients) // ranks
    if zero >= 2:
        mine = torch.empty(shard)
        dist.reduce_scatter_tensor(mine, gradients)
        kept = [mine.to(_DTYPES[says.gradients])]
    else:
        dist.all_reduce(gradients)
        kept = [p.grad.to(_DTYPES[says.gradients]) for p in bag.weights if p.grad is not None]
        mine = gradients[rank * shard : (rank + 1) * shard] if zero else gradients[: sum(map(math.prod, shapes))]
    weights = _flat(list(bag.weights), ranks)
    part = weights[rank * shard : (rank + 1) * shard] if zero else weights[: len(mine)]
    master = nn.Parameter(part.detach().to(_DTYPES[says.moments // 2]).clone())
    master.grad = mine.to(master.dtype)
    optimizer = torch.optim.AdamW([master], 1e-3, foreach=False)
    optimizer.step()
    if zero:
        dist.all_gather_into_tensor(torch.empty(shard * ranks), master.detach().float())
    state = [optimizer.state[master][name] for name in ("exp_avg", "exp_avg_sq")]
    copy = [master] if says.master else []
    return Held(_bytes(list(bag.weights)), _bytes(kept), _bytes([*state, *copy]))


def _flat(tensors: list[Tensor], ranks: int) -> Tensor:
    """All of them in one vector of FP32, with zeros up to equal shards."""
    flat = torch.cat([t.detach().flatten().float() for t in tensors])
    return torch.cat([flat, torch.zeros(-len(flat) % ranks)])


def _bytes(tensors: list[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
