"""In real ranks the ledger agrees with torch's memory trackers, byte for byte, on DDP and FSDP2 steps."""

from __future__ import annotations

from typing import Any

import pytest

import simulator
from tests.memory import steps

PARAMETERS = sum(p.numel() for p in steps.model().parameters()) * 4


def run(program: Any) -> list[Any]:
    return simulator.run(program, 2, echo=False, cpu_limit_s=300).raise_for_outcome().results


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_equal_to_torchs_tracker(strategy: str) -> None:
    results = run(getattr(steps, strategy))
    assert results[0] == results[1], "bytes do not depend on the rank"
    rows = results[0]["rows"]
    assert [row[0] for row in rows] == ["forward", "backward", "step", "peak"] * steps.NUM_STEPS
    for name, total, ours, theirs in rows:
        assert (name, ours) == (name, theirs)
        assert total == sum(theirs.values())
    kinds = results[0]["kinds"]
    shards = 1 if strategy == "ddp" else 2
    assert kinds["step"]["parameters"] == kinds["step"]["gradients"] == PARAMETERS // shards
    if strategy == "ddp":
        assert kinds["step"]["communication"] == PARAMETERS, "the buckets are as large as the gradients"
        assert kinds["peak"]["gathered"] == 0
    else:
        assert kinds["step"]["gathered"] == kinds["step"]["communication"] == 0, "all is freed after a step"
        assert kinds["peak"]["gathered"] > 0


def test_tensors_die_where_the_program_drops_them() -> None:
    assert run(steps.dropped) == [0, 0]


def test_out_of_memory_in_a_rank() -> None:
    for rank, text in enumerate(run(steps.too_large)):
        assert f"Virtual GPU out of memory on rank {rank}" in text
        assert "600.00 KiB parameters: Linear.weight, float32[300, 512]" in text
