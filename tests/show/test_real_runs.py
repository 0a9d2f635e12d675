"""The timeline of real runs: what the simulator records is what the picture and its text tell."""

from __future__ import annotations

import pytest

import simulator
from simulator.show import timeline, totals
from simulator.show.totals import is_open
from tests.simulator import layers


def train(steps: int) -> None:
    import torch
    import torch.distributed as dist

    gradients = torch.ones(1000)
    for _ in simulator.steps(steps):
        simulator.compute(1e-3)
        dist.all_reduce(gradients)


def ring_all_reduce() -> None:
    import torch
    import torch.distributed as dist

    rank, world_size = dist.get_rank(), dist.get_world_size()
    chunks = [torch.ones(1000) for _ in range(world_size)]
    for gather in (0, 1):
        for hop in range(world_size - 1):
            give = (rank - hop + gather) % world_size
            received = torch.empty(1000)
            sending = dist.isend(chunks[give], (rank + 1) % world_size)
            dist.recv(received, (rank - 1) % world_size)
            sending.wait()
            take = (give - 1) % world_size
            chunks[take] = received if gather else chunks[take] + received


def test_a_slow_rank_is_named_and_the_others_wait() -> None:
    run = simulator.run(train, 3, args=(3,), faults="slow(rank=1, factor=3)", cluster=layers.EASY, echo=False)
    shown = timeline(run.trace, run.outcome)
    fast, slow, _ = totals(run.trace)
    assert (fast.compute_ns, slow.compute_ns) == (3_000_000, 9_000_000)
    assert fast.waiting_ns == 6_000_000
    assert slow.waiting_ns == 0
    assert fast.counted_ns == fast.compute_ns + fast.waiting_ns + fast.transfer_ns
    assert "rank 1 was late at all_reduce #0 (step 0) by 2.0 ms; ranks 0 and 2 waited" in shown.text()
    assert "slow \N{MULTIPLICATION SIGN}3" in shown.svg()


def test_a_ring_has_one_arrow_for_every_message() -> None:
    run = simulator.run(ring_all_reduce, world_size=3, echo=False)
    svg = timeline(run.trace, run.outcome).svg()
    assert run.ok
    assert svg.count("recv from rank") >= 3 * 4
    (arrows,) = [part for part in svg.split("<g ") if part.startswith('id="messages"')]
    assert arrows.count("M ") == 3 * 2 * 2


@pytest.mark.parametrize(
    ("plan", "fault", "label"),
    [
        ("skip_collective(rank=2, collective=1)", "skipped", "timeout after 1,800 s"),
        ("kill(rank=2, step=1)", "killed at step 1", "peer lost"),
    ],
)
def test_a_hang_and_a_kill_are_told_on_every_stuck_lane(plan: str, fault: str, label: str) -> None:
    run = simulator.run(train, world_size=3, args=(3,), faults=plan, echo=False)
    shown = timeline(run.trace, run.outcome)
    stuck = [event for event in run.trace.events if is_open(event)]
    svg, text = shown.svg(), shown.text()
    assert {event.rank for event in stuck} == {0, 1}
    for event in stuck:
        assert any(f"{rank}{event.label}" in svg for rank in (f"rank {event.rank}: ", ""))
    assert svg.count(label) >= len(stuck)
    assert text.count("FAILED") == len(stuck)
    assert fault in svg
    assert f"FAULT: {fault}" in text
    assert text.startswith(run.outcome.name)


def test_the_same_run_twice_gives_the_same_picture() -> None:
    pictures = {
        run.timeline().svg() for run in (simulator.run(train, world_size=2, args=(2,), echo=False) for _ in range(2))
    }
    assert len(pictures) == 1
