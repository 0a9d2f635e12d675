"""The modelled machine: rooflines and algorithms by hand, fitted fabrics against measurements."""

from __future__ import annotations

import csv

import msgspec
import pytest

from simulator.cluster import PRESETS, Cluster, Gpu, Link, get_cluster, presets
from simulator.cluster.algorithms import GroupShape, bytes_sent
from simulator.cluster.fit import ALL, DATA, fit_all, mean_absolute, measurements, relative_errors
from simulator.errors import UsageError

#: One FLOP and one byte a nanosecond, one microsecond to launch: sums that can be done in the head.
EASY = Gpu("easy", {"float32": 1e9, "bfloat16": 4e9}, 1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("flops", "num_bytes", "dtype", "expected_ns"),
    [
        (0, 0, "float32", 1000),
        (500, 200, "float32", 1500),  # compute-bound
        (500, 800, "float32", 1800),  # memory-bound
        (4000, 200, "bfloat16", 2000),
        (500, 0, "int64", 1500),  # no rate of its own: float32
    ],
)
def test_an_operator_costs_the_roofline(flops, num_bytes, dtype, expected_ns):
    assert EASY.operator_ns(flops, num_bytes, dtype) == expected_ns


def test_a_cluster_travels_to_the_coordinator():
    for cluster in PRESETS.values():
        assert msgspec.convert(msgspec.to_builtins(cluster), Cluster) == cluster


def test_a_large_matmul_on_an_a100_takes_what_is_measured():
    """8192 x 8192 x 8192 in bf16 runs at 240 to 280 TFLOP/s on an A100."""
    gpu, n = get_cluster("a100-80gb").gpu, 8192
    assert 240e12 < 2 * n**3 / (gpu.operator_ns(2 * n**3, 3 * 2 * n**2, "bfloat16") * 1e-9) < 280e12


def test_all_reduce_is_as_measured():
    """What `python -m benchmarks collectives` prints: nodes with eight HDR ports, 2 to 128 GPUs."""
    cluster = get_cluster("a100-80gb-hdr8")
    rows = [m for m in measurements() if "Echo" in m.source]
    sizes = {m.shape.size for m in rows}
    assert sizes == {2, 4, 8, 16, 32, 64, 128}
    for size in sizes:
        small = [m for m in rows if m.shape.size == size and m.num_bytes < 2**20]
        large = [m for m in rows if m.shape.size == size and m.num_bytes >= 2**20]
        assert mean_absolute(relative_errors(cluster, small)) <= 0.25, size
        assert mean_absolute(relative_errors(cluster, large)) <= 0.15, size


def test_the_presets_are_what_the_fit_prints():
    for name, fitted in fit_all().items():
        preset = getattr(presets, name.upper())
        assert [getattr(preset, n) for n in (*ALL, "all_reduce_gain")] == [
            getattr(fitted, n) for n in (*ALL, "all_reduce_gain")
        ], name


def test_latencies_of_messages_are_nccls_constants():
    with (DATA / "nccl_tuner_constants.csv").open() as file:
        simple = {(row["parameter"], row["algo"]): row["Simple_us"] for row in csv.DictReader(file)}
    base = float(simple["base latency us", "Ring"])
    a100 = get_cluster("a100-80gb")
    assert a100.intra.latency_us == pytest.approx(base + float(simple["hw latency NVLINK us", "Ring"]))
    assert a100.inter.latency_us == pytest.approx(base + float(simple["hw latency NET us", "Ring"]))


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "gather"])
@pytest.mark.parametrize("name", PRESETS)
def test_more_bytes_more_time_and_nodes_cost(name, op):
    cluster = PRESETS[name]
    in_node, across = cluster.shape(range(8)), cluster.shape(range(0, 64, 8))
    times = [cluster.collective_s(op, 2.0**k, in_node) for k in range(3, 33)]
    assert times == sorted(times)
    assert cluster.collective_s(op, 2.0**26, across) > cluster.collective_s(op, 2.0**26, in_node)


def test_what_nobody_measured_is_derived():
    cluster = get_cluster("a100-80gb")
    node, two_nodes, one_each = cluster.shape(range(8)), cluster.shape(range(16)), cluster.shape(range(0, 64, 8))
    assert cluster.basis("all_reduce", node) == cluster.basis("all_reduce", two_nodes) == "fitted"
    assert cluster.basis("all_gather", node) == cluster.basis("all_reduce", one_each) == "derived"
    assert get_cluster("a100-80gb-hdr4").basis("all_reduce", two_nodes) == "derived"


def test_groups_at_the_same_time_share_the_network_of_a_node():
    cluster, shape = get_cluster("a100-80gb"), GroupShape(size=16, nodes=16, per_node=1)
    alone = cluster.collective_s("all_reduce", 1e9, shape)
    assert 1.4 < cluster.collective_s("all_reduce", 1e9, shape, concurrent=8) / alone < 1.6  # 22.5 to 15.5 GB/s


#: One microsecond a step and one byte a nanosecond inside, ten times as much between nodes of two.
TWO_A_NODE = Cluster("two a node", 2, intra=Link(1.0, 1.0), inter=Link(10.0, 0.1))


@pytest.mark.parametrize(
    ("algorithm", "expected_ns"),
    [
        ("ring", 6 * 10_000 + 1500 * 10),
        ("tree", 4 * 10_000 + 2000 * 10),
        # in the node 500 bytes twice, between nodes an all_reduce of 500 bytes over two
        ("hierarchical", 2 * (1_000 + 500) + 2 * 10_000 + 500 * 10),
    ],
)
def test_algorithms_by_hand(algorithm, expected_ns):
    assert TWO_A_NODE.collective_ns("all_reduce", 1000, range(4), algorithm=algorithm) == expected_ns


def test_a_slow_link_slows_the_bytes_only():
    assert TWO_A_NODE.collective_ns("all_reduce", 1000, range(2), link_factor=3.0) == 2 * 1000 + 3 * 1000
    assert TWO_A_NODE.p2p_ns(100, 0, 1, link_factor=3.0) == 1000 + 300
    cluster = get_cluster("a100-80gb")
    usual, slow = (cluster.collective_ns("all_reduce", 2**30, range(16), link_factor=f) for f in (1.0, 3.0))
    assert 2.9 < slow / usual < 3.0


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"a100-80gb, a100-80gb-hdr4"):
        get_cluster("a100")
    with pytest.raises(UsageError, match="use one of ring, tree, hierarchical"):
        TWO_A_NODE.collective_ns("all_reduce", 8, range(4), algorithm="mesh")
    with pytest.raises(UsageError, match="all_gather has no tree"):
        TWO_A_NODE.collective_ns("all_gather", 8, range(4), algorithm="tree")


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [2, 8, 16, 128])
def test_no_protocol_is_faster_than_its_link(op, size):
    cluster = get_cluster("a100-80gb")
    limit = (cluster.intra_fabric if size <= 8 else cluster.inter_fabric).bandwidth_gbytes_per_s * 1e9
    sent = bytes_sent(op, 2.0**34, size)
    assert cluster.collective_s(op, 2.0**34, cluster.shape(range(size))) >= sent / limit


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("reduce_scatter_tensor", "reduce_scatter"),
        ("all_to_all_single", "all_to_all"),
    ],
)
def test_a_collective_costs_the_same_under_each_of_its_names(name, plain):
    cluster, shape = get_cluster("h200"), GroupShape(16, 2, 8)
    assert cluster.collective_s(name, 1e6, shape) == cluster.collective_s(plain, 1e6, shape)
    assert cluster.basis(name, GroupShape(8, 1, 8)) == cluster.basis(plain, GroupShape(8, 1, 8))
