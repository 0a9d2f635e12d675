"""What lab1/pipeline gives to the student: one stage of a decoder. Imported in ranks only: it imports torch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

import simulator
from autograder.checks.lab1.toy import Decoder, next_token_loss


class Stage:
    """This rank's part of a decoder, and what it needs of the batch. A forward takes 1 virtual ms, a backward 2 ms."""

    def __init__(self, decoder: Decoder, micro_batches: list[Tensor], width: int, forward_s: float) -> None:
        self._rank, self._stages = dist.get_rank(), dist.get_world_size()
        self._decoder = decoder.cut(self._rank, self._stages)
        self._tokens, self._width, self._forward_s = micro_batches, width, forward_s

    @property
    def parameters(self) -> list[Tensor]:
        """Those of this stage."""
        return list(self._decoder.parameters())

    def empty(self) -> Tensor:
        """A tensor of the shape of a micro-batch's activations, to receive into."""
        return torch.empty(*self._tokens[0].shape, self._width, dtype=self.parameters[0].dtype)

    def forward(self, x: Tensor | None, k: int) -> Tensor:
        """Micro-batch `k`: activations for the next stage; on the last stage its share of the mean loss.

        `x` is what the stage before sent, None on the first stage.
        """
        with simulator.annotate("forward"):
            simulator.compute(self._forward_s)
            out: Tensor = self._decoder(self._tokens[k] if x is None else x)
            if self._rank == self._stages - 1:
                out = next_token_loss(out, self._tokens[k]) / len(self._tokens)
        return out

    def backward(self, out: Tensor, grad: Tensor | None) -> None:
        """Backward from `out` with the gradient that the next stage sent, None on the last stage."""
        with simulator.annotate("backward"):
            simulator.compute(2 * self._forward_s)
            out.backward(grad)  # type: ignore[no-untyped-call]
