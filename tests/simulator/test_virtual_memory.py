"""Memory of ranks in a run: the report, the limit, live bytes in the trace, one digest."""

import math

import pytest

import simulator

WIDTH, NUM_BYTES = 64, 2 * (64 * 64 + 64) * 4


def train(strategy):
    """Two steps of a small model with Adam."""
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    model = nn.parallel.DistributedDataParallel(model) if strategy == "ddp" else fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in simulator.steps(2):
        model(torch.ones(8, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_report_of_every_rank():
    run = simulator.run(train, 3, args=("ddp",), memory_gib=math.inf, echo=False).raise_for_outcome()
    for report in run.memory:
        kinds = report.by_kind
        assert kinds["parameters"] == kinds["gradients"] == kinds["communication"] == NUM_BYTES
        assert kinds["optimizer_state"] == 2 * NUM_BYTES + 4 * 4  # and a step counter a parameter
        assert sum(kinds.values()) == report.peak_bytes
    assert 0 < max(e.live_bytes for e in run.trace.of_rank(0)) <= run.memory[0].peak_bytes


def test_one_digest_with_time_and_memory():
    runs = [simulator.run(train, 3, args=("fsdp",), memory_gib=math.inf, echo=False) for _ in range(3)]
    assert all(run.ok for run in runs), runs[0].outcome
    assert len({run.trace.digest for run in runs}) == 1
    assert all(run.memory == runs[0].memory for run in runs)


def test_limit():
    def too_much():
        import torch

        kept = [torch.zeros(1 << 18) for _ in range(9)]  # a MiB each
        return len(kept)

    run = simulator.run(too_much, 2, memory_gib=8 / 1024, echo=False)
    assert run.outcome.name == "RankFailed"
    assert "VirtualOutOfMemory" in run.outcome.explain()
    assert "Tried to allocate 1.00 MiB" in run.outcome.explain()
    assert run.memory[0].peak_bytes == 8 << 20


def test_memory_is_not_followed_unless_asked():
    run = simulator.run(abs, 2, args=(-1,), echo=False)
    assert run.memory == (None, None)


@pytest.mark.parametrize("memory_gib", [0, -1, "80"])
def test_nonsense_is_refused(memory_gib):
    with pytest.raises(simulator.SimulatorError, match="memory_gib"):
        simulator.run(abs, 2, args=(-1,), memory_gib=memory_gib)
