"""memory_profile against what is measured: torch's MemTracker, and real checkpointing of each layer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import simulator
from simulator.errors import UsageError
from tests.memory import models

#: For each model a layer whose checkpointing is measured in the fast tests, and what makes it hard.
ONE_LAYER = {
    "mlp": "3",  # saves its output, which the next layer saves, too
    "resnet": "3",  # in-place ReLU, batch norm, residual
    "transformer encoder": "layers.0",  # dropout masks
    "gpt": "blocks.1",  # attention
    "unet": "down",  # its output is used twice
    "shared layer": "layer",  # called three times
    "gpt, selective": "blocks.0",  # caches inside
}


def kept_bytes(module: nn.Module, batch: Any, *, with_output: bool) -> int:
    """What MemTracker says lives on after forward."""
    tracker = MemTracker()
    tracker.track_external(module, batch)
    with tracker:
        out = module(batch)
        graph = out.grad_fn
        if not with_output:
            del out
        gc.collect()
        assert graph is not None
        return tracker.get_tracker_snapshot("current")[torch.device("cpu")][_MemRefType.ACT]


def checkpointed(name: str, layer: str) -> tuple[nn.Module, Any]:
    """The same model with one layer checkpointed."""
    module, batch = models.make(name)
    part = module.get_submodule(layer)
    forward = part.forward
    part.forward = lambda *args, **kwargs: checkpoint(  # type: ignore[method-assign]
        forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
    )
    return module, batch


@pytest.mark.parametrize("name", models.CASES)
def test_total_is_what_lives_on_after_forward(name: str) -> None:
    profile = simulator.memory_profile(*models.make(name), real=name == "lstm")
    assert profile.total_bytes == kept_bytes(*models.make(name), with_output=False)


@pytest.mark.parametrize(("name", "layer"), ONE_LAYER.items())
def test_freed_is_what_checkpointing_frees(name: str, layer: str) -> None:
    profile = simulator.memory_profile(*models.make(name))
    before = kept_bytes(*models.make(name), with_output=True)
    after = kept_bytes(*checkpointed(name, layer), with_output=True)
    assert profile[layer].freed_bytes == before - after


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in models.CASES if name != "lstm"])
def test_freed_is_right_for_every_layer(name: str) -> None:
    profile = simulator.memory_profile(*models.make(name))
    before = kept_bytes(*models.make(name), with_output=True)
    for layer in profile.layers:
        if layer.name != profile.model:
            assert layer.freed_bytes == before - kept_bytes(*checkpointed(name, layer.name), with_output=True), layer


@pytest.mark.parametrize(("name", "layer"), [("mlp", "3"), ("gpt", "blocks.1"), ("resnet", "4")])
def test_recompute_flops_are_those_that_checkpoint_runs_again(name: str, layer: str) -> None:
    """Measured as the FLOPs that forward and backward have more with the layer checkpointed."""
    profile = simulator.memory_profile(*models.make(name))
    assert profile[layer].recompute_flops == _train_flops(*checkpointed(name, layer)) - _train_flops(*models.make(name))
    assert profile[profile.model].flops >= profile[layer].flops >= profile[layer].recompute_flops


def _train_flops(module: nn.Module, batch: Any) -> int:
    from simulator.flops import _OF_CPU

    def of(formula: Callable[[Any, Any], int]) -> Callable[..., int]:
        formula_of_shapes = lambda *args, out_val=None, **kwargs: formula(args, out_val)  # noqa: E731
        formula_of_shapes._get_raw = True  # type: ignore[attr-defined]  # give tensors, not shapes
        return formula_of_shapes

    with FlopCounterMode(display=False, custom_mapping={op: of(f) for op, f in _OF_CPU.items()}) as counter:
        module(batch).sum().backward()
    return counter.get_total_flops()


def test_views_in_place_and_parameters() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x @ self.weight  # saves the batch and the parameter: nothing new
            y = y.relu_()  # saves its result, in the storage of y
            return (y[:, :32].t() @ y.view(-1, 64)).sum()  # saves two views of it

    profile = simulator.memory_profile(Model(), torch.ones(8, 64))
    assert profile.total_bytes == 8 * 64 * 4
    assert profile.parameter_bytes == 64 * 64 * 4


def test_nothing_of_the_model_changes() -> None:
    for real in (False, True):
        module, batch = models.make("resnet")
        before = {name: value.clone() for name, value in module.state_dict().items()}
        random_state = torch.get_rng_state()
        first = simulator.memory_profile(module, batch, real=real)
        assert first == simulator.memory_profile(module, batch, real=real)
        assert torch.equal(torch.get_rng_state(), random_state)
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
        assert all(parameter.grad is None for parameter in module.parameters())


def test_a_large_model_on_the_meta_device() -> None:
    """Five times more parameters than any test machine should fill; the bytes are those of the formula."""
    batch, length, width, heads = 2, 512, 8192, 64
    with torch.device("meta"):
        block = models.Block(width, heads).to(torch.bfloat16)
    x = torch.empty(batch, length, width, dtype=torch.bfloat16, device="meta")
    profile = simulator.memory_profile(block, x)
    tokens = batch * length
    # norm's input is the batch; its output, q, k, v in one, attention's output and its copy, the second norm's input
    # and output, and 4 + 4 of the MLP; two numbers a norm in float32, one a head and token for attention
    saved = 2 * tokens * width * (1 + 3 + 1 + 1 + 1 + 8) + 2 * 2 * 4 * tokens + 4 * heads * tokens
    assert profile.total_bytes == pytest.approx(saved, rel=0.07)
    assert profile.parameter_bytes > 1.5e9
    assert profile["mlp.1"].saved_bytes == 2 * tokens * 4 * width


def test_table_order_and_picture() -> None:
    module, batch = models.make("resnet")
    profile = simulator.memory_profile(module, batch, loss=lambda out: out.square().mean())
    lines = profile.table("saved", depth=1).splitlines()
    assert lines[0].split()[:4] == ["layer", "class", "calls", "saved"]
    assert lines[1].startswith("Sequential")
    assert lines[2].startswith("3 ")
    assert any(line.startswith("(loss)") for line in lines)
    assert lines[-1].startswith("*: changes its input in place")
    ratios = [
        layer.bytes_per_flop for layer in profile.sorted("ratio") if layer.recompute_flops and layer.freed_bytes > 0
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios
    picture = profile.plot()
    assert {layer.name for layer in picture.layers} >= {"3.a", "4.skip", "7", "(loss)"}
    assert picture.png() == picture.png()
    assert "saves 144.75 KiB" in picture.alt
    assert "3 90.12 KiB" in picture.alt


def test_what_cannot_be_profiled_is_said() -> None:
    class Looks(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return y * 2 if y.sum().item() > 0 else y

    with pytest.raises(UsageError, match="real=True"):
        simulator.memory_profile(Looks(4, 4), torch.ones(2, 4))
    assert simulator.memory_profile(Looks(4, 4), torch.ones(2, 4), real=True).total_bytes == 0
    with pytest.raises(UsageError, match="no parameter"):
        simulator.memory_profile(nn.ReLU(), torch.ones(2))
    assert "oneDNN" in simulator.memory_profile(*models.make("lstm")).table()
    profile = simulator.memory_profile(*models.make("mlp"))
    with pytest.raises(UsageError, match="cannot sort"):
        profile.table("size")
    with pytest.raises(KeyError, match="there are Sequential"):
        profile["9"]
