"""Clusters by name: four GPUs, and the networks between their nodes.

The constants of fabrics with `measured` are those that `python -m simulator.cluster.fit` prints. The others are
derived: latencies of the nearest measured fabric, bandwidth of the ports times the share that others report. Messages
between two ranks: latency by NCCL's tuning constants (base + hardware latency, protocol Simple), bandwidth measured.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.gpu import A100_40GB, A100_80GB, H100, H200, Gpu
from simulator.cluster.links import Fabric, Link
from simulator.errors import UsageError

_ALL_REDUCE = ("all_reduce",)
_ECHO = "nccl-tests logs of Echo (arXiv 2412.12487), A100 on Azure ND A100 v4"
_AWS = "aws-samples/awsome-distributed-training, nccl-tests README, two nodes"
_STAS = "stas00/ml-engineering, network benchmarks, 8 x H200"

NVLINK3 = Fabric("NVLink 3", 4.97, 1.85, 0.41, 52.0, 1.36, 220.0, measured=_ALL_REDUCE, source=_ECHO)
NVLINK4 = Fabric(
    "NVLink 4",
    *(12.6, 1.85, 0.41, 20.8, 1.36, 362.0),
    all_reduce_gain=1.27,
    measured=("all_reduce", "all_gather", "reduce_scatter"),
    source=_STAS,
)
HDR8 = Fabric("8 x HDR InfiniBand", 17.9, 8.57, 0.634, 43.8, 16.9, 124.0, measured=_ALL_REDUCE, source=_ECHO)
EFA4 = Fabric("4 x 100 Gb/s EFA", 144.0, 8.57, 1.93, 213.0, 16.9, 72.4, measured=_ALL_REDUCE, source=_AWS)
EFA32 = Fabric("32 x 100 Gb/s EFA", 54.2, 8.57, 1.23, 101.0, 16.9, 460.0, measured=_ALL_REDUCE, source=_AWS)

HDR4 = replace(
    HDR8,
    name="4 x HDR InfiniBand",
    bandwidth_gbytes_per_s=93.0,
    measured=(),
    source="latencies of 8 x HDR; bandwidth between the 91 and 96 GB/s of NVIDIA/nccl-tests issues 100 and 119",
)
NDR8 = replace(
    HDR8,
    name="8 x NDR InfiniBand",
    bandwidth_gbytes_per_s=370.0,
    measured=(),
    source="latencies of 8 x HDR; 92 % of 8 x 50 GB/s",
)
ETHERNET_100G = replace(
    EFA4,
    name="100 Gb/s Ethernet",
    bandwidth_gbytes_per_s=10.6,
    measured=(),
    source="latencies of EFA; 85 % of 12.5 GB/s, the share that stas00/ml-engineering reports for EFA v1",
)

_NVLINK3_P2P = Link(11.8, 274.0)
_NVLINK4_P2P = Link(11.8, 410.0)  # 91 % of the 450 GB/s, as measured on NVLink 3
_HDR_RAIL = Link(22.4, 22.5)  # 180 Gb/s: the pass threshold of Azure's ib_write_bw health check
_NDR_RAIL = Link(22.4, 45.0)
_ETHERNET_RAIL = Link(22.4, 10.6)
_EFA_RAIL = Link(22.4, 10.6)

_A100_NETWORKS = {
    "hdr8": (HDR8, _HDR_RAIL),
    "hdr4": (HDR4, _HDR_RAIL),
    "efa4": (EFA4, _EFA_RAIL),
    "eth100": (ETHERNET_100G, _ETHERNET_RAIL),
}
_HOPPER_NETWORKS = {
    "ndr8": (NDR8, _NDR_RAIL),
    "hdr8": (HDR8, _HDR_RAIL),
    "efa32": (EFA32, _NDR_RAIL),
    "eth100": (ETHERNET_100G, _ETHERNET_RAIL),
}


def _family(
    name: str, gpu: Gpu, intra: tuple[Fabric, Link], networks: dict[str, tuple[Fabric, Link]]
) -> dict[str, Cluster]:
    """One cluster a network; the first network is also what the bare name means."""
    found: dict[str, Cluster] = {}
    for network, (inter_fabric, rail) in networks.items():
        full = f"{name}-{network}" if found else name
        found[full] = Cluster(full, 8, intra[1], rail, gpu=gpu, intra_fabric=intra[0], inter_fabric=inter_fabric)
    return found


PRESETS = {
    **_family("a100-80gb", A100_80GB, (NVLINK3, _NVLINK3_P2P), _A100_NETWORKS),
    **_family("a100-40gb", A100_40GB, (NVLINK3, _NVLINK3_P2P), _A100_NETWORKS),
    **_family("h100", H100, (NVLINK4, _NVLINK4_P2P), _HOPPER_NETWORKS),
    **_family("h200", H200, (NVLINK4, _NVLINK4_P2P), _HOPPER_NETWORKS),
}
#: Names that say what a bare name means.
ALIASES = {
    **{f"{gpu}-{network}": gpu for gpu in ("a100-80gb", "a100-40gb") for network in ("hdr", "hdr8")},
    **{f"{gpu}-{network}": gpu for gpu in ("h100", "h200") for network in ("ndr", "ndr8")},
}


def get_cluster(cluster: str | Cluster) -> Cluster:
    """A preset by name, or the cluster itself. Raises `UsageError` for an unknown name."""
    if isinstance(cluster, Cluster):
        return cluster
    name = ALIASES.get(cluster, cluster)
    if name not in PRESETS:
        raise UsageError(f"unknown cluster {cluster!r}: use one of {', '.join(PRESETS)}, or a simulator.Cluster")
    return PRESETS[name]
