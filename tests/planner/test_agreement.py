"""The planner says to the byte what ranks hold and send: small models on real ranks, their traces and their tensors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import simulator
from simulator.cluster import Cluster, Gpu, Link
from simulator.cluster.algorithms import plain_name
from simulator.planner import PRECISIONS, Layout
from simulator.planner.constants import FITTED, Constants
from simulator.planner.memory import memory
from simulator.planner.timing import step_time
from simulator.planner.wire import states, traffic
from tests.planner import programs
from tests.planner.programs import MEDIUM, PLAIN, TINY

FP32 = PRECISIONS["fp32-plain"]


def sent(run: simulator.Run, rank: int) -> Counter:
    """Bytes by operation of what a rank communicated in FP32 after the set-up."""
    assert run.ok, run.outcome.text
    found: Counter = Counter()
    for event in run.trace.of_rank(rank):
        if event.is_communication and event.dtype == "float32" and event.op != "broadcast":
            found[plain_name(event.op), event.bytes] += 1
    return found


def predicted(layout: Layout, model=TINY, stage: int = 0) -> Counter:
    found: Counter = Counter()
    for entry in traffic(model, layout, stage):
        found[entry.op, entry.num_bytes] += entry.count
    return +found


def test_data_parallel():
    layout = Layout(dp=2, micro_batch=2, precision=FP32)
    run = simulator.run(programs.data_parallel, 2, args=(TINY,), echo=False)
    (gradients,) = traffic(TINY, layout)
    assert sum(size * count for (_, size), count in sent(run, 0).items()) == gradients.total
    for rank, held in enumerate(run.results):
        of = states(TINY, layout, rank)
        assert held == [of.parameters, of.gradients, of.optimizer]


@pytest.mark.parametrize("reshard", [True, False])
def test_fully_sharded(reshard: bool):
    """Three ranks: dimensions that three does not divide are padded on the wire, and the last rank holds less."""
    layout = Layout(dp=3, zero=3, reshard=reshard, micro_batch=2, accumulation=2, precision=FP32)
    run = simulator.run(programs.fully_sharded, 3, args=(TINY, reshard, 2), echo=False)
    for rank, held in enumerate(run.results):
        assert sent(run, rank) == predicted(layout)
        of = states(TINY, layout, rank)
        assert held == [of.parameters, of.gradients, of.optimizer]
    assert run.results[0] != run.results[2]


def test_tensor_parallel():
    layout = Layout(tp=2, micro_batch=2, precision=FP32)
    run = simulator.run(programs.tensor_parallel, 2, args=(TINY,), echo=False)
    assert sent(run, 0) == sent(run, 1) == predicted(layout)


def test_pipeline():
    layout = Layout(pp=4, micro_batch=2, accumulation=6, precision=FP32)
    run = simulator.run(programs.pipelined, 4, args=(PLAIN, 2, 6), echo=False)
    for stage in range(4):
        assert sent(run, stage) == predicted(layout, PLAIN, stage)


@pytest.mark.parametrize(("sharding", "zero"), [("ddp", 0), ("fsdp", 3)])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_peak_memory(sharding: str, zero: int, micro_batch: int):
    """Within 5 % of the ledger. With one sequence FSDP peaks in backward, with four where the loss begins its own."""
    run = simulator.run(programs.peak, 2, args=(MEDIUM, sharding, micro_batch), echo=False)
    layout = Layout(dp=2, zero=zero, micro_batch=micro_batch, precision=FP32)
    nothing_beside_tensors = replace(FITTED, context_gib=0.0, fragmentation=1.0)
    found = memory(MEDIUM, layout, nothing_beside_tensors)
    peak, kinds = run.results[0]
    assert found.total == pytest.approx(peak, rel=0.05)
    assert found.parameters == kinds["parameters"]
    assert found.optimizer == pytest.approx(kinds["optimizer_state"], rel=1e-3)


#: Without launches and with memory so fast that FLOPs decide: 1 TFLOP/s, and links of so many GB/s.
FLOPS_ONLY = Gpu("flops only", {"float32": 1e12}, 1e6, 80.0, 0.0, 1.0, 1.0)
#: What such a GPU makes of the constants that real ones need.
IDEAL = Constants(1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0)
KINDS = {
    "ddp": Layout(dp=2, micro_batch=2, precision=FP32),
    "fsdp": Layout(dp=2, zero=3, micro_batch=2, precision=FP32),
    "tp": Layout(tp=2, micro_batch=2, precision=FP32),
    "pp": Layout(pp=2, accumulation=4, precision=FP32),
}


@pytest.mark.parametrize("gbytes_per_s", [2.0, 8.0])
def test_step_time_and_ranking(gbytes_per_s: float):
    """Forward and backward in virtual time: each within 15 %, and the same order where they differ by more than that.

    The simulated GPU computes the whole square of attention scores, the planner's half of it: the difference is here.
    """
    link = Link(1.0, gbytes_per_s)
    cluster = Cluster("flops only", 8, intra=link, inter=link, gpu=FLOPS_ONLY)
    measured, said = {}, {}
    for kind, layout in KINDS.items():
        args = (MEDIUM, kind, layout.micro_batch, layout.accumulation)
        run = simulator.run(programs.seconds, 2, args=args, cluster=cluster, echo=False)
        assert run.ok, run.outcome.text
        time = step_time(MEDIUM, layout, cluster, IDEAL)
        # sequences a second, as the kinds have different batches
        measured[kind] = layout.global_batch / max(run.results)
        said[kind] = layout.global_batch / (time.total - time.optimizer)
        assert said[kind] == pytest.approx(measured[kind], rel=0.15), kind
    for one in KINDS:
        for other in KINDS:
            if measured[one] > 1.15 * measured[other]:
                assert said[one] > said[other], (one, other)
