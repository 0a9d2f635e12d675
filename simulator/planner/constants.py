"""The eight numbers that no data sheet has, fitted to published runs by `python -m simulator.planner.calibrate`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Physical, the same for every source, framework and model.

    Time: `gemm_efficiency` is the share of a GPU's achievable FLOP/s that large matrix products of training reach,
    `gemm_traffic` how much of the time to move their operands comes on top (small sides hurt), `attention_efficiency`
    the share that fused attention reaches, `elementwise_bandwidth` the share of memory bandwidth of norms, activations,
    softmax and the optimizer, `overlap` the share of the computing time that can hide data-parallel communication,
    `synchronisation` the share of the step lost per doubling of GPUs (stragglers, jitter).
    Memory: `context_gib` what the CUDA context, NCCL and workspaces take, `fragmentation` what the caching allocator
    takes per byte of activations and temporaries.
    """

    gemm_efficiency: float = 0.8
    gemm_traffic: float = 0.5
    attention_efficiency: float = 0.4
    elementwise_bandwidth: float = 0.7
    overlap: float = 0.8
    synchronisation: float = 0.005
    context_gib: float = 2.0
    fragmentation: float = 1.05


#: What `python -m simulator.planner.calibrate` prints.
FITTED = Constants(
    gemm_efficiency=0.876,
    gemm_traffic=0.328,
    attention_efficiency=0.33,
    elementwise_bandwidth=0.9,
    overlap=0.19,
    synchronisation=0.00499,
    context_gib=1.0,
    fragmentation=1.0,
)
