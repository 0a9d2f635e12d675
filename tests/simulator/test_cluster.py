"""The modelled machine: rooflines by hand."""

from __future__ import annotations

import msgspec
import pytest

from simulator.cluster import PRESETS, Cluster, Gpu, get_cluster

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
