"""The modelled machine: GPUs, links, and what a collective costs. Presets carry constants fitted to measurements."""

from simulator.cluster.cluster import Cluster, to_ns
from simulator.cluster.gpu import NO_GPU, Gpu
from simulator.cluster.links import Fabric, Link
from simulator.cluster.presets import PRESETS, get_cluster

__all__ = ["NO_GPU", "PRESETS", "Cluster", "Fabric", "Gpu", "Link", "get_cluster", "to_ns"]
