"""The feed-forward block of lab1/split-it, whole and in slices. Imported in ranks only: it imports torch."""

from __future__ import annotations

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.checks.lab1.toy import SumBackward, SumForward


def sum_forward(x: Tensor) -> Tensor:
    """The sum of `x` over all ranks; in backward the gradient passes as it is."""
    total: Tensor = SumForward.apply(x)  # type: ignore[no-untyped-call]
    return total


def sum_backward(x: Tensor) -> Tensor:
    """`x` as it is; in backward the gradient is summed over all ranks."""
    same: Tensor = SumBackward.apply(x)  # type: ignore[no-untyped-call]
    return same


class Block(nn.Module):
    """`x + down(gelu(up(norm(x)))) + bias`: norm and bias whole, `up` and `down` whole or a slice of them.

    `up` is (width, inside), `down` (inside, width); a slice has some columns of the one and as many rows of the other.
    """

    def __init__(self, width: int, inside: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, inside, bias=False)
        self.down = nn.Linear(inside, width, bias=False)
        self.bias = nn.Parameter(self.down.weight.detach().mean(1).clone())

    def forward(self, x: Tensor) -> Tensor:
        """The whole block on one rank."""
        out: Tensor = x + self.down(F.gelu(self.up(self.norm(x)))) + self.bias
        return out

    def slice(self) -> Block:
        """This rank's slice, with parameters of its own."""
        ranks, rank = dist.get_world_size(), dist.get_rank()
        part = Block(self.norm.weight.numel(), self.up.out_features // ranks).to(self.bias.dtype)
        part.norm.weight.data.copy_(self.norm.weight.data)
        part.up.weight.data.copy_(self.up.weight.data.chunk(ranks, 0)[rank])
        part.down.weight.data.copy_(self.down.weight.data.chunk(ranks, 1)[rank])
        part.bias.data.copy_(self.bias.data)
        return part
