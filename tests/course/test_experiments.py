"""What the experiments of Lab 2 show: recorded runs that add up, and that a run gives again; the X-ray of DDP."""

from __future__ import annotations

import pytest

import simulator
from autograder.experiments import BucketCurve, buckets, xray, xray_text
from autograder.experiments.xray import iteration
from tests.show.test_widget import training

GRADIENT_BYTES = buckets.LAYERS * (buckets.WIDTH + 1) * buckets.WIDTH * 4


def test_every_recorded_step_sends_all_gradients_once_in_order() -> None:
    recorded = buckets.recorded()
    assert tuple(recorded) == buckets.SIZES_MB
    for steps in recorded.values():
        assert [step.step for step in steps] == [*range(buckets.STEPS)]
        assert len(steps[0].buckets) == 1  # before DDP knows the order
        for step in steps:
            assert sum(bucket.bytes for bucket in step.buckets) == GRADIENT_BYTES
            assert all(b.issue_ns <= b.start_ns < b.end_ns <= step.step_ns for b in step.buckets)
            for before, after in zip(step.buckets, step.buckets[1:], strict=False):
                assert after.start_ns >= before.end_ns


def test_the_curve_has_a_best_size_between_many_buckets_and_one() -> None:
    curve = BucketCurve()
    times = [steps[-1].step_ns for steps in buckets.recorded().values()]
    lowest = times.index(min(times))
    assert times[: lowest + 1] == sorted(times[: lowest + 1], reverse=True)
    assert times[lowest:] == sorted(times[lowest:])
    assert curve.best().bucket_mb == 50
    assert "least with 50 MB (2.53 ms), 2.92 ms with one bucket" in curve.alt
    assert "  25 MB         6   2.59 ms" in curve.text()
    assert curve.png().startswith(b"\x89PNG")


def test_an_iteration_counts_time_from_its_own_beginning() -> None:
    trace = training()
    second = iteration(trace, 1)
    assert [e.op for e in second.of_rank(0)] == ["step", "compute", "all_reduce"]
    assert (second.events[0].issue_ns, second.end_ns) == (0, 1500)
    assert second.of_rank(0)[2].seq == 1


def small_ddp() -> list[tuple[int, str, int, int]]:
    """Two iterations of DDP over four layers of 1 MB."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    begin, ready = torch.cpu.Event(), []
    begin.record()
    layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
    model = DistributedDataParallel(layers, bucket_cap_mb=1)
    for name, parameter in layers.named_parameters():

        def note(p: torch.Tensor, name: str = name) -> None:
            event = torch.cpu.Event()
            event.record()
            ready.append((name, p.numel() * 4, event))

        parameter.register_post_accumulate_grad_hook(note)
    for _ in simulator.steps(2):
        model(torch.ones(64, 512)).mean().backward()
        model.zero_grad()
    return [(k // 8, name, size, round(begin.elapsed_time(e) * 1e6)) for k, (name, size, e) in enumerate(ready)]


@pytest.mark.slow
def test_the_x_ray_sees_the_rebuilt_buckets() -> None:
    run = simulator.run(small_ddp, 2, echo=False)
    last = {step: max(ns for of, _, _, ns in run.results[0] if of == step) for step in (0, 1)}
    issued = {
        step: [e.issue_ns for e in run.trace.of_rank(0) if e.op == "all_reduce" and e.step == step] for step in last
    }
    assert len(issued[0]) == 1
    assert issued[0][0] >= last[0]
    assert len(issued[1]) == 4
    assert issued[1][0] < last[1] <= issued[1][-1]
    text = xray_text(run)
    assert text.index("3.bias") < text.index("0.bias")
    assert "iteration 2" in text
    shown = xray(run)
    assert [len(points) for points in shown.notes.points] == [16, 16]  # type: ignore[union-attr]
    assert "gradient of 0.weight is ready" not in shown.text()
    assert shown.html().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_recorded_run_comes_out_the_same_again() -> None:
    assert tuple(buckets.measure(25)) == buckets.recorded()[25]
