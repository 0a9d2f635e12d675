"""A small model and its data, which the scripts beside it import as a sibling module."""

import torch
from torch import nn


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def batch(step, rank):
    """Inputs and targets of one rank at one step."""
    chance = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, 8, generator=chance)
    return inputs, inputs.sum(1, keepdim=True).sin()
