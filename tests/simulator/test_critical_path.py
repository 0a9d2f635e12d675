"""The virtual time of a step is the critical path, worked out by hand from compute, communication and their order.

Costs on the EASY cluster: all_reduce of B bytes on W ranks: 2 (W - 1) us + 2 (W - 1) / W * B ns; all_gather and
reduce_scatter half of that; a message 1 us + B ns. Collectives of one group run one after the other, in issue order.
"""

from dataclasses import replace

import pytest

import simulator
from simulator.cluster import Link
from tests.simulator import layers
from tests.simulator.layers import EASY


def last_step_ns(program, world_size, *args, cluster=EASY):
    """Virtual time of rank 0 from the beginning of its last step to its end."""
    run = simulator.run(program, world_size, args=args, cluster=cluster, echo=False).raise_for_outcome()
    events = run.trace.of_rank(0)
    return max(e.end_ns for e in events) - max(e.issue_ns for e in events if e.op == "step")


# Forward 3 x 10 us; gradients are ready at 50, 70 and 90 us, last layer first; one bucket each.
@pytest.mark.parametrize(
    ("world_size", "num_floats", "expected_ns"),
    [
        (2, (1000, 3000, 500), 96_000),  # buckets 50-54, 70-84, 90-96: only the last one is exposed
        (2, (1000, 3000, 50_000), 272_000),  # 50-252, then one after the other: +14, +6
        (4, (1000, 3000, 500), 106_000),  # 50-59, 70-94, 94-106
    ],
)
def test_ddp(world_size, num_floats, expected_ns):
    assert last_step_ns(layers.ddp, world_size, num_floats, 10, 20) == expected_ns


# G: gather, R: reduce-scatter (13 us each on 2 ranks, 21 on 4), F and B: compute of layers 1, 2, 3. A gather may begin
# after the copy-out of the gather before the last one; reduce-scatter and gather share one communicator.
@pytest.mark.parametrize(
    ("world_size", "forward_us", "backward_us", "expected_ns"),
    [
        # G1 0-13 F1 -23 | G2 13-26 F2 -36 | G3 26-39 F3 -49 | G3 39-52 B3 -72 | G2 52-65 B2 72-92 | R3 72-85
        # G1 85-98 B1 -118 | R2 98-111 | R1 118-131
        (2, 10, 20, 131_000),
        # G1 0-13 F1 -43 F2 -73 F3 -103 B3 -163 B2 -223 B1 -283, everything else hidden | R1 283-296
        (2, 30, 60, 296_000),
        # G1 0-21 F1 -31 | G2 -42 F2 -52 | G3 -63 F3 -73 | G3 -84 B3 -104 | G2 -105 B2 -125 | R3 105-126 | G1 -147
        # B1 -167 | R2 147-168 | R1 168-189
        (4, 10, 20, 189_000),
    ],
)
def test_fsdp2(world_size, forward_us, backward_us, expected_ns):
    assert last_step_ns(layers.fsdp, world_size, (6000, 6000, 6000), forward_us, backward_us) == expected_ns


# Four layers of 10 us whose host waits for each; gathers of 1.004, 1.004, 101 and 1.004 us.
@pytest.mark.parametrize(
    ("depth", "expected_ns"),
    [
        (0, 144_012),  # every gather is exposed
        (1, 132_004),  # the third one begins with layer 2: 10 us of it are hidden; the second and fourth wholly
        (2, 123_008),  # it begins after the second gather, with layer 1
    ],
)
def test_fsdp2_prefetch_depth(depth, expected_ns):
    assert last_step_ns_of_forward(depth) == expected_ns


def last_step_ns_of_forward(depth):
    run = simulator.run(layers.fsdp_forward, 2, args=((2, 2, 50_000, 2), 10, depth), cluster=EASY, echo=False)
    return run.raise_for_outcome().trace.end_ns


# Forward 10 us, backward 20 us a stage; a message of 1000 bytes takes 2 us.
@pytest.mark.parametrize(
    ("world_size", "num_microbatches", "link", "expected_ns"),
    [
        # rank 0: F 0-10, F -20, exchange 42-44, B -64, receive 74-76, B -96
        # rank 1: receive 10-12, F -22, B -42, exchange -44, F -54, B -74, send -76
        (2, 2, EASY.intra, 96_000),
        # rank 0: F 0-10, F -20, exchange 42-44, B -64, F -74, exchange -76, B -96, receive 106-108, B -128
        # rank 1: receive 10-12, F -22, B -42, exchange -44, F -54, B -74, exchange -76, F -86, B -106, send -108
        (2, 3, EASY.intra, 128_000),
        (3, 4, Link(0.0, 1e9), 180_000),  # messages for nothing: (microbatches + stages - 1) * (10 + 20)
    ],
)
def test_one_f_one_b(world_size, num_microbatches, link, expected_ns):
    cluster = replace(EASY, intra=link)
    assert last_step_ns(layers.one_f_one_b, world_size, num_microbatches, 10, 20, 250, cluster=cluster) == expected_ns


# A block: its compute and one all_reduce of 4 * width bytes, in forward and in backward; nothing can overlap.
@pytest.mark.parametrize(
    ("world_size", "num_blocks", "width", "expected_ns"),
    [
        (2, 2, 256, 2 * (10_000 + 3024 + 20_000 + 3024)),
        (2, 3, 128, 3 * (10_000 + 2512 + 20_000 + 2512)),
        (4, 1, 256, 10_000 + 7536 + 20_000 + 7536),
    ],
)
def test_tensor_parallel(world_size, num_blocks, width, expected_ns):
    assert last_step_ns(layers.tensor_parallel, world_size, num_blocks, 10, 20, width) == expected_ns
