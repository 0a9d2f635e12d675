"""What the memory ledger costs: a tiny-GPT training step with nothing, a bare dispatch mode, the ledger, MemTracker."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils._python_dispatch import TorchDispatchMode

import simulator
from simulator.memory.watch import watch
from tests.memory import models

#: microseconds of processor time for each operator, on top of a mode that does nothing
LEDGER_LIMIT_US = 5.0
PROFILE_LIMIT_S = 30.0


class _Bare(TorchDispatchMode):
    num_operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _Bare.num_operators += 1
        return func(*args, **(kwargs or {}))


def main(*, quick: bool) -> bool:
    rounds = 2 if quick else 6
    ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "nothing": nullcontext,
        "a mode that does nothing": _Bare,
        "the ledger": watch,
        "torch's MemTracker": MemTracker,
    }
    torch.set_num_threads(1)
    ms: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            ms[name] += _steps(way, num_steps=3 if way is MemTracker else 10)
    best = {name: min(times) for name, times in ms.items()}
    bare = best["a mode that does nothing"]
    num_operators = _Bare.num_operators / (10 * rounds)
    for name, times in ms.items():
        each = (best[name] - bare) * 1e3 / num_operators
        print(f"{name}: {best[name]:.2f} ms best, {statistics.median(times):.2f} ms median; {each:+.1f} us an operator")
    print(f"{num_operators:.0f} operators a step; processor time", flush=True)
    cost_us = (best["the ledger"] - bare) * 1e3 / num_operators
    return (cost_us <= LEDGER_LIMIT_US) & _large_model()


def _steps(way: Callable[[], AbstractContextManager[Any]], num_steps: int) -> list[float]:
    """Milliseconds of processor time of each step, after one to warm up."""
    times = []
    with way() as tracker:
        torch.manual_seed(0)
        model = models.GPT(256, 128, 4, 4)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        tokens = torch.randint(256, (4, 65))
        for _ in range(num_steps):
            if isinstance(tracker, MemTracker):
                tracker.reset_mod_stats()
            began = time.process_time()
            logits = model(tokens[:, :-1])
            nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append((time.process_time() - began) * 1e3)
    return times[1:]


def _large_model() -> bool:
    """A 6.6 billion parameter model is profiled without its memory."""
    with torch.device("meta"):
        model = models.GPT(32_000, 4096, 32, 32).to(torch.bfloat16)
    began = time.process_time()
    profile = simulator.memory_profile(model, torch.zeros(1, 4096, dtype=torch.long))
    seconds = time.process_time() - began
    billions = sum(parameter.numel() for parameter in model.parameters()) / 1e9
    print(f"memory_profile of {billions:.1f} billion parameters, 4,096 tokens: {seconds:.1f} s. {profile.summary}")
    return seconds <= PROFILE_LIMIT_S
