"""Small models of real architectures, each with a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

Case = tuple[nn.Module, Any]


class Block(nn.Module):
    """A pre-norm transformer block; `policy` is "" or how its MLP is checkpointed."""

    def __init__(self, width: int, num_heads: int, policy: str = "") -> None:
        super().__init__()
        self.num_heads, self.policy = num_heads, policy
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, length, 3, self.num_heads, width // self.num_heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self._mlp(self.norms[1](x))

    def _mlp(self, x: torch.Tensor) -> torch.Tensor:
        if not self.policy:
            return self.mlp(x)
        options: dict[str, Any] = {"preserve_rng_state": False, "use_reentrant": self.policy == "reentrant"}
        if self.policy == "selective":
            saved = [torch.ops.aten.addmm.default]
            options["context_fn"] = partial(create_selective_checkpoint_contexts, saved)
        return checkpoint(self.mlp, x, **options)


class GPT(nn.Module):
    """Embedding, blocks, and a head that shares its weight with the embedding."""

    def __init__(self, vocabulary: int, width: int, num_blocks: int, num_heads: int, policy: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, num_heads, policy) for _ in range(num_blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens))))


class Residual(nn.Module):
    """Two convolutions with batch norm and in-place ReLU, around which the input goes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.norm_a, self.norm_b, self.relu = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_b(self.b(self.relu(self.norm_a(self.a(x)))))
        y += self.skip(x)
        return self.relu(y)


class LSTM(nn.Module):
    """Two recurrent layers and a head on the last output."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(tokens))[0][:, -1])


class UNet(nn.Module):
    """Down and up again, with the way down concatenated to the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Sequential(nn.Dropout2d(0.1), nn.Conv2d(16, 3, 1), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = self.down(x)
        return self.last(torch.cat([self.up(self.middle(down)), down], 1))


class Shared(nn.Module):
    """One linear layer that is called three times, and a table that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.table = nn.Linear(12, 12), torch.ones(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.tanh(self.layer(x)) * self.table
        return x


def _mlp() -> Case:
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)), torch.ones(
        7, 10
    )


def _resnet() -> Case:
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(True), *blocks, *head), torch.ones(
        4, 3, 12, 12
    )


def _encoder() -> Case:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.ones(3, 9, 16)


def _gpt(policy: str = "") -> Case:
    return GPT(40, 32, 2, 4, policy), torch.arange(24).view(2, 12)


def _unet() -> Case:
    return UNet(), torch.ones(2, 3, 8, 8)


def _lstm() -> Case:
    return LSTM(), torch.arange(28).view(4, 7)


def _shared() -> Case:
    return Shared(), torch.ones(5, 12)


CASES: dict[str, Callable[[], Case]] = {
    "mlp": _mlp,
    "resnet": _resnet,
    "transformer encoder": _encoder,
    "gpt": _gpt,
    "lstm": _lstm,
    "unet": _unet,
    "shared layer": _shared,
    "gpt, checkpointed": partial(_gpt, "full"),
    "gpt, reentrant": partial(_gpt, "reentrant"),
    "gpt, selective": partial(_gpt, "selective"),
}


def make(name: str) -> Case:
    """A model in train mode and its batch, the same every time."""
    torch.manual_seed(0)
    return CASES[name]()
