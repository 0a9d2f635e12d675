"""The rank side of generated programs: one function that runs a list of lines.

Each line is compiled at its own line number of a file called program.py, so that call sites are those of a program
that somebody wrote, in loops too.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

import simulator

Line = tuple[int, int, str]  # step (-1: outside steps), line number, code


def run_lines(groups: dict[str, tuple[int, ...]], lines: list[Line]) -> dict[str, float]:
    """Run the lines in order. Returns what each call left, by "line/step"."""
    made = {
        name: dist.new_group(list(ranks)) if name != "default" else dist.group.WORLD for name, ranks in groups.items()
    }
    names: dict[str, Any] = {"dist": dist, "torch": torch, "os": os, "groups": made, "works": {}, "out": {}}
    names |= {"compute": simulator.compute, "rank": dist.get_rank(), "world_size": dist.get_world_size()}
    now = -1
    for step, number, code in lines:
        if step not in (-1, now):
            now = step
            next(iter(simulator.steps([step])))
        key = f"{number}/{step}"
        names["key"], names["full"] = key, _maker(number, step)
        exec(compile("\n" * (number - 1) + code, "program.py", "exec"), names)
    return {key: float(value.double().sum()) for key, value in names["out"].items()}


def _maker(number: int, step: int) -> Any:
    """A tensor whose values tell the call and the rank."""

    def full(shape: tuple[int, ...], dtype: str, scale: int = 1) -> torch.Tensor:
        value = (dist.get_rank() + 1) + 10 * (number % 97) + 1000 * (step + 1)
        return torch.full((shape[0] * scale, *shape[1:]), value, dtype=getattr(torch, dtype))

    return full
