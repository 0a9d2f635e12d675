"""One modelled GPU: what an operator costs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """Peak rates of the data sheet, and the fractions of them that large operators reach.

    `peak_flops`: floating-point operations per second by dtype name, dense (no sparsity), a multiply-add counted as
    two. "bfloat16" and "float16" run on tensor cores; "float32" is the plain FP32 pipe, torch's default (`allow_tf32`
    is off); "tf32" is the tensor-core rate that a program gets by asking for it; "float64" is the tensor-core rate,
    which cuBLAS uses. `memory_gib` is what `torch.cuda` reports as total capacity, a little less than the printed size.
    `launch_overhead_us` is paid by every operator, however small. `achievable_compute_fraction` is what the best matrix
    product of 16-bit numbers reaches, `achievable_bandwidth_fraction` what a long copy reaches.
    """

    name: str
    peak_flops: Mapping[str, float] = field(hash=False)
    memory_bandwidth_gbytes_per_s: float
    memory_gib: float
    launch_overhead_us: float = 4.5
    achievable_compute_fraction: float = 0.87
    achievable_bandwidth_fraction: float = 0.85

    @property
    def is_free(self) -> bool:
        """Operators cost nothing: only `simulator.compute` moves the clock."""
        return self == NO_GPU

    def operator_ns(self, flops: float, num_bytes: float, dtype: str = "float32") -> int:
        """Nanoseconds of one operator: launch overhead plus the longer of computing and moving bytes.

        `num_bytes` is what it reads and writes in device memory. A dtype without a rate of its own (integers, bool)
        computes at the float32 rate. The roofline model: Williams, Waterman, Patterson 2009.
        """
        peak = self.peak_flops.get(dtype, self.peak_flops["float32"])
        compute_s = flops / (peak * self.achievable_compute_fraction)
        memory_s = num_bytes / (self.memory_bandwidth_gbytes_per_s * 1e9 * self.achievable_bandwidth_fraction)
        return round(self.launch_overhead_us * 1e3 + max(compute_s, memory_s) * 1e9)


_A100_FLOPS = {"bfloat16": 312e12, "float16": 312e12, "tf32": 156e12, "float32": 19.5e12, "float64": 19.5e12}
_H100_FLOPS = {"bfloat16": 989.4e12, "float16": 989.4e12, "tf32": 494.7e12, "float32": 66.9e12, "float64": 66.9e12}

# Achievable: stas00/ml-engineering, "Maximum Achievable Matmul FLOPS": 271 of 312 TFLOP/s on an A100, 794 of 989 on an
# H100. Peaks: NVIDIA A100 Tensor Core GPU data sheet (2021: SXM4 80 GB and 40 GB); NVIDIA H100 Tensor Core GPU
# architecture white paper (2022, H100 SXM5); NVIDIA H200 Tensor Core GPU data sheet (2024, SXM).
A100_80GB = Gpu("A100-SXM4-80GB", _A100_FLOPS, memory_bandwidth_gbytes_per_s=2039, memory_gib=79.15)
A100_40GB = Gpu("A100-SXM4-40GB", _A100_FLOPS, memory_bandwidth_gbytes_per_s=1555, memory_gib=39.39)
H100 = Gpu("H100-SXM5-80GB", _H100_FLOPS, 3350, 79.1, achievable_compute_fraction=0.8)
H200 = Gpu("H200-SXM-141GB", _H100_FLOPS, 4800, 139.8, achievable_compute_fraction=0.8)

#: For sums that are done by hand: nothing but `simulator.compute` and communication takes time.
NO_GPU = Gpu("no GPU", {"float32": float("inf")}, float("inf"), float("inf"), launch_overhead_us=0.0)
