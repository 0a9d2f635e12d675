"""Small models and batches for the training programs."""

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16


class Block(nn.Module):
    """Two linear layers with a residual."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def blocks(count: int = 3, width: int = WIDTH) -> nn.Sequential:
    """The same weights on every rank."""
    torch.manual_seed(7)
    return nn.Sequential(*[Block(width) for _ in range(count)])


def batch(step: int, rows: int = 4, width: int = WIDTH) -> torch.Tensor:
    """This rank's rows of a step."""
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> list[float]:
    """A few steps; the losses."""
    losses = []
    for step in range(steps):
        loss = model(batch(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()] + [b.clone() for b in model.buffers()]


def local(model: nn.Module) -> list[torch.Tensor]:
    """This rank's shards of a model of DTensors."""
    from torch.distributed.tensor import DTensor

    return [p.to_local().detach().clone() if isinstance(p, DTensor) else p.detach().clone() for p in model.parameters()]
