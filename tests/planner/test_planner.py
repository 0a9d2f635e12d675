"""The planner's arithmetic: what must hold for every model, and numbers that can be done by hand."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import pytest

import simulator
from simulator.cluster import PRESETS, get_cluster
from simulator.errors import UsageError
from simulator.planner import MODELS, PRECISIONS, Layout, Transformer, predict
from simulator.planner.brief import brief, grey_zone
from simulator.planner.constants import FITTED
from simulator.planner.goodput import GPU_HOURS_BETWEEN_FAILURES, Reliability
from simulator.planner.memory import GIB, memory, micro_batches_in_flight, state_bytes
from simulator.planner.model import get_model
from simulator.planner.planning import USD_PER_GPU_HOUR
from simulator.planner.search import layouts, search
from simulator.planner.timing import step_time

A100 = get_cluster("a100-80gb")


@pytest.mark.parametrize(("name", "published"), [("7b", 6.74e9), ("13b", 13.02e9), ("65b", 65.29e9), ("70b", 68.98e9)])
def test_parameters_are_the_published_ones(name, published):
    """meta-llama/llama model cards: 6.74, 13.02, 65.29 and 68.98 billion."""
    assert MODELS[name].parameters == pytest.approx(published, rel=2e-3)


def test_parameters_by_hand():
    model = Transformer("by hand", layers=2, d_model=8, heads=4, kv_heads=2, d_ffn=10, vocab=5, seq_len=4, gated=True)
    layer = 8 * (8 + 2 * 4) + 8 * 8 + 3 * 8 * 10 + 2 * 8  # queries with keys and values, output, SwiGLU, norms
    assert model.parameters == 2 * layer + 5 * 8 + (8 + 5 * 8)
    assert replace(model, tied=True).parameters == model.parameters - 5 * 8
    with pytest.raises(UsageError, match="heads must divide"):
        replace(model, heads=3)


@pytest.mark.parametrize(
    ("billions", "zero", "ranks", "gigabytes"),
    [
        *((7, 0, 1, 112), (7, 1, 8, 38.5), (7, 2, 8, 26.25), (7, 3, 8, 14)),
        *((13, 1, 16, 61.75), (13, 2, 64, 28.84), (70, 1, 128, 286.6), (70, 3, 128, 8.75)),
    ],
)
def test_states_of_the_16_byte_convention(billions, zero, ranks, gigabytes):
    """2 + 2 + 12 bytes: ZeRO-1 shards twelve of them, ZeRO-2 fourteen, ZeRO-3 all."""
    found = sum(state_bytes(billions * 1e9, Layout(dp=ranks, zero=zero)))
    assert found / 1e9 == pytest.approx(gigabytes, rel=1e-3)


@pytest.mark.parametrize("name", ["8", "10", "16", "18", "20"])
def test_precisions_are_named_after_their_bytes(name):
    assert PRECISIONS[name].bytes_per_parameter == float(name)


@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
def test_each_stage_of_zero_needs_no_more_than_the_one_before(ranks):
    totals = [memory(MODELS["7b"], Layout(dp=ranks, zero=zero), FITTED).states for zero in range(4)]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == (1 if ranks == 1 else 4)


def test_micro_batches_in_flight():
    deep = Layout(pp=4, accumulation=16)
    assert micro_batches_in_flight(deep) == 4
    assert micro_batches_in_flight(replace(deep, schedule="gpipe")) == 16
    assert micro_batches_in_flight(replace(deep, accumulation=2)) == 2
    assert micro_batches_in_flight(replace(deep, schedule="interleaved", chunks=2)) == 4 * (1 + 3 / 8)


@pytest.mark.parametrize(("chunks", "micro_batches"), [(1, 8), (1, 32), (2, 8)])
def test_the_bubble_is_that_of_the_formula(chunks, micro_batches):
    """(p - 1) / (chunks * m) of the time that the layers take, as in Narayanan et al. 2021."""
    schedule = "interleaved" if chunks > 1 else "1f1b"
    layout = Layout(pp=8, accumulation=micro_batches, chunks=chunks, schedule=schedule)
    model = replace(MODELS["7b"], vocab=1)
    time_ = step_time(model, layout, A100, FITTED)
    assert time_.bubble / time_.compute == pytest.approx(7 / (chunks * micro_batches), rel=1e-3)
    assert step_time(model, replace(layout, pp=1, chunks=1, schedule="1f1b"), A100, FITTED).bubble == 0


def test_full_recomputation_frees_memory_and_costs_a_forward():
    plain = predict(MODELS["13b"], Layout(dp=8, zero=3, micro_batch=2), A100)
    again = predict(MODELS["13b"], Layout(dp=8, zero=3, micro_batch=2, recompute="full"), A100)
    assert again.memory.activations < 0.15 * plain.memory.activations
    assert 1.25 < again.step_s / plain.step_s < 1.38
    assert again.mfu < plain.mfu
    assert again.hfu / again.mfu == pytest.approx(4 / 3, rel=0.02)
    assert plain.hfu == plain.mfu


def faster_links(cluster, factor: float):
    intra, inter = cluster.intra_fabric, cluster.inter_fabric
    return replace(
        cluster,
        inter=replace(cluster.inter, bandwidth_gbytes_per_s=cluster.inter.bandwidth_gbytes_per_s * factor),
        intra_fabric=replace(intra, bandwidth_gbytes_per_s=intra.bandwidth_gbytes_per_s * factor),
        inter_fabric=replace(inter, bandwidth_gbytes_per_s=inter.bandwidth_gbytes_per_s * factor),
    )


def test_more_bandwidth_never_slows_a_layout():
    better = faster_links(A100, 2.0)
    for layout in list(layouts(MODELS["13b"], 32, 64, 8, PRECISIONS["16"]))[::7]:
        slow, fast = (step_time(MODELS["13b"], layout, c, FITTED).total for c in (A100, better))
        assert fast <= slow, layout.name


def test_less_memory_never_makes_a_layout_possible():
    names = []
    for gib in (40, 60, 80):
        smaller = replace(A100, gpu=replace(A100.gpu, memory_gib=gib))
        names.append({p.layout for p in search(MODELS["13b"], 16, 16, smaller).feasible})
    assert names[0] < names[1] < names[2]


def test_every_layout_uses_all_gpus_and_reaches_the_batch():
    for model, gpus, batch in (("70b", 128, 64), ("7b", 12, 24), ("7b", 1, 4)):
        found = list(layouts(MODELS[model], gpus, batch, 8, PRECISIONS["16"]))
        assert found
        assert len(set(found)) == len(found)
        for layout in found:
            layout.check(MODELS[model])
            assert (layout.gpus, layout.global_batch) == (gpus, batch)


def test_all_layouts_of_70b_on_128_gpus_in_a_second():
    begin = time.process_time()
    found = search(get_model("70b"), 128, 1024, A100)
    assert found.examined > 2000
    assert time.process_time() - begin < 1.0


def test_plans_are_ranked_and_say_why_they_lose():
    planning = simulator.plan("7b", gpus=8, batch=32)
    steps = [p.step_s for p in planning.found.feasible]
    assert all(b >= a - 1e-4 for a, b in itertools.pairwise(steps))
    found = planning.as_dict()
    assert found["basis"] == "predicted"
    assert found["plans"][0]["why"] == ""
    assert all("slower" in p["why"] or "as fast" in p["why"] for p in found["plans"][1:])
    assert found["rejected"]["DDP"].startswith("needs 102 of 79 GiB, 75 of it optimizer")


def test_no_plan_is_an_answer():
    planning = simulator.plan("70b", gpus=8, batch=32)
    assert planning.best is None
    assert "memory: the smallest layout needs" in planning.infeasible
    assert "of it optimizer" in planning.infeasible
    assert {"16 GPUs", "GPUs of 141 GB"} <= set(planning.helps)
    for change in planning.helps:
        if change.endswith("GPUs"):
            gpus = int(change.split()[0])
            assert simulator.plan("70b", gpus=gpus, batch=32).best
            assert not simulator.plan("70b", gpus=gpus // 2, batch=32).best


def test_a_batch_that_does_not_divide_is_named():
    planning = simulator.plan("7b", gpus=7, batch=4)
    assert planning.best is None
    assert planning.infeasible.startswith("divisibility:")
    assert "a global batch of 7" in planning.helps


def test_less_than_a_sequence_for_each_gpu_is_said():
    planning = simulator.plan("70b", gpus=128, batch=64)
    assert "64 sequences on 128 GPUs are 0.5 of a sequence" in planning.notes[0]
    assert all(p.layout.dp <= 64 for p in planning.found.feasible)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "8b"}, "unknown model '8b': use one of 1b, 7b"),
        ({"cluster": "tpu"}, "unknown cluster 'tpu'"),
        ({"precision": "fp4"}, "unknown precision 'fp4'"),
        ({"gpus": 0}, "must be at least 1"),
    ],
)
def test_unusable_questions_are_refused(arguments, words):
    with pytest.raises(UsageError, match=words):
        simulator.plan(**{"model": "7b", "gpus": 8, "batch": 8, **arguments})


def test_layouts_that_cannot_be_built_are_refused():
    with pytest.raises(UsageError, match="64 heads cannot be split over tp 3"):
        predict(MODELS["70b"], Layout(tp=3), A100)


@pytest.mark.parametrize("cluster", PRESETS)
def test_every_preset_can_plan(cluster):
    assert simulator.plan("7b", gpus=16, batch=32, cluster=cluster).best


def test_the_brief_is_predicted_beside_a_published_run():
    rows = brief()
    assert [(r.planning.found.gpus, r.planning.found.batch) for r in rows] == [(8, 32), (16, 16), (128, 64)]
    for row in rows:
        assert row.planning.best
        assert row.nearest.layout.gpus == row.planning.found.gpus
        assert row.predicted_tokens_per_s_per_gpu == pytest.approx(row.measured_tokens_per_s_per_gpu, rel=0.2)


def test_the_grey_zone_of_ddp():
    """7B fits in plain DDP under 10 bytes a parameter, not under 16; 13B under none of them."""
    fits = {(model, precision) for model, precision, _, fits in grey_zone() if fits}
    assert fits == {("7b", "8"), ("7b", "10")}


def test_goodput_by_hand():
    calm = Reliability(gpu_hours_between_failures=1e9)
    assert calm.goodput(8) > 0.99
    day = Reliability(gpu_hours_between_failures=24.0, checkpoint_s=60.0, restart_s=600.0)
    assert day.checkpoint_interval_s(1) == math.sqrt(2 * 60 * 86400)
    assert day.goodput(1, interval_s=3600.0) == pytest.approx((1 - 60 / 3660) * (1 - (1800 + 600) / 86400))
    best = day.goodput(1)
    assert best >= max(day.goodput(1, interval_s=day.checkpoint_interval_s(1) * f) for f in (0.5, 2.0))
    with pytest.raises(UsageError, match="must be positive"):
        day.goodput(1, interval_s=0.0)
    # 16384 GPUs failed 419 times in 54 days: once in three hours
    assert Reliability().seconds_between_failures(16384) / 3600 == pytest.approx(54 * 24 / 419)
    assert round(GPU_HOURS_BETWEEN_FAILURES) == 50_677


def test_cost_by_hand():
    planning = simulator.plan("7b", gpus=8, batch=32)
    seconds = 1e6 / planning.best.tokens_per_s_per_gpu
    assert planning.usd_per_million_tokens(planning.best) == pytest.approx(seconds / 3600 * USD_PER_GPU_HOUR)


def test_memory_is_the_sum_of_its_kinds():
    found = memory(MODELS["7b"], Layout(dp=8, zero=1), FITTED)
    kinds = (found.parameters, found.gradients, found.optimizer, found.activations, found.logits, found.temporary)
    assert found.total == sum(kinds) + found.overhead
    assert found.overhead == FITTED.context_gib * GIB
