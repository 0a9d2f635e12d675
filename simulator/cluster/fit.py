"""`python -m simulator.cluster.fit`: the constants of every fabric, from the measured collectives beside this file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator.cluster.algorithms import GroupShape
from simulator.cluster.cluster import Cluster
from simulator.cluster.links import Fabric, Link

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Measurement:
    """One line of nccl-tests: the bytes of the vector and the microseconds it took."""

    source: str
    hardware: str
    network: str
    op: str
    shape: GroupShape
    num_bytes: int
    time_us: float


def measurements() -> list[Measurement]:
    """The rows that state GPUs, nodes, size, and a time or an algorithm bandwidth."""
    with (DATA / "collectives.csv").open(newline="") as file:
        return [m for row in csv.DictReader(file) if (m := _measurement(row))]


def _measurement(row: dict[str, str]) -> Measurement | None:
    if not (row["num_gpus"].isdigit() and row["num_nodes"].isdigit() and row["size_bytes"].isdigit()):
        return None
    size, nodes, num_bytes = int(row["num_gpus"]), int(row["num_nodes"]), int(row["size_bytes"])
    if row["time_us"]:
        time_us = float(row["time_us"])
    elif row["algbw_GBps"]:
        time_us = num_bytes / (float(row["algbw_GBps"]) * 1e3)
    else:
        return None
    shape = GroupShape(size, nodes, size // nodes)
    return Measurement(row["source"], row["hardware"], row["network"], row["collective"], shape, num_bytes, time_us)


def relative_errors(cluster: Cluster, rows: Sequence[Measurement]) -> list[float]:
    """Modelled over measured time, minus one."""
    return [cluster.collective_s(m.op, m.num_bytes, m.shape) * 1e6 / m.time_us - 1 for m in rows]


def mean_absolute(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)


def minimise(loss: Callable[[list[float]], float], start: Sequence[float], smallest_step: float = 1e-4) -> list[float]:
    """Positive numbers that minimise `loss`: one coordinate at a time, in factors, with shrinking steps."""
    point, steps, best = list(start), [0.3] * len(start), loss(list(start))
    while max(steps) > smallest_step:
        for i, step in enumerate(steps):
            for factor in (math.exp(step), math.exp(-step)):
                trial = [*point[:i], point[i] * factor, *point[i + 1 :]]
                if (value := loss(trial)) < best - 1e-12:
                    point, best, steps[i] = trial, value, step * 1.3
                    break
            else:
                steps[i] = step * 0.5
    return point


def fit(cluster: Cluster, place: str, names: Sequence[str], rows: Sequence[Measurement]) -> Fabric:
    """The cluster's fabric (`place` is the field) with `names` fitted: least mean absolute relative error on `rows`."""
    start: Fabric = getattr(cluster, place)

    def candidate(values: Sequence[float]) -> Fabric:
        constants: dict[str, Any] = dict(zip(names, values, strict=True))
        return replace(start, **constants)

    def loss(values: Sequence[float]) -> float:
        changed: dict[str, Any] = {place: candidate(values)}
        trial = replace(cluster, **changed)
        return mean_absolute(relative_errors(trial, rows))

    found = minimise(loss, [getattr(start, name) for name in names])
    return candidate([float(f"{value:.3g}") for value in found])


#: Where every search begins: round numbers.
START = Fabric("start", 10.0, 2.0, 0.5, 50.0, 5.0, 100.0)
ALL = ("short_base_us", "short_hop_us", "short_us_per_kb", "bulk_base_us", "bulk_hop_us", "bandwidth_gbytes_per_s")
#: One group size was measured: the cost of a hop cannot be told from the base and is taken from the fabric above it.
ONE_SIZE = ("short_base_us", "short_us_per_kb", "bulk_base_us", "bandwidth_gbytes_per_s")
#: NVLink SHARP: only all_reduce of 8 GPUs was measured at every size; the bandwidth is the one of all_gather.
IN_SWITCH = ("short_base_us", "bulk_base_us", "all_reduce_gain")


def of(*words: str) -> list[Measurement]:
    """The measurements whose source, hardware or network has all these words."""
    return [m for m in measurements() if all(word in f"{m.source} {m.hardware} {m.network}" for word in words)]


def fit_all() -> dict[str, Fabric]:
    """Every fabric that has measurements, fitted; deterministic, a few seconds."""
    node = GroupShape(8, 1, 8)
    plain = Cluster(
        "fit", node.per_node, intra=Link(0, 1e3), inter=Link(0, 1e3), intra_fabric=START, inter_fabric=START
    )
    nvlink3 = fit(plain, "intra_fabric", ALL, of("Echo", "NVSwitch"))
    a100 = replace(plain, intra_fabric=nvlink3)
    hdr8 = fit(a100, "inter_fabric", ALL, of("Echo", "HDR"))
    nvlink4 = replace(nvlink3, bandwidth_gbytes_per_s=362.0, all_reduce_gain=1.3)
    nvlink4 = fit(replace(plain, intra_fabric=nvlink4), "intra_fabric", IN_SWITCH, of("8xH200", "NVLS"))
    efa4 = fit(replace(a100, inter_fabric=hdr8), "inter_fabric", ONE_SIZE, of("p4de"))
    # two nodes of H100 are as fast as the links inside a node: the measurements show no limit of the network
    network = replace(hdr8, bandwidth_gbytes_per_s=460.0)
    h100 = replace(plain, intra_fabric=nvlink4, inter_fabric=network)
    efa32 = fit(h100, "inter_fabric", ONE_SIZE[:-1], of("p5.48xlarge"))
    return {"nvlink3": nvlink3, "hdr8": hdr8, "nvlink4": nvlink4, "efa4": efa4, "efa32": efa32}


if __name__ == "__main__":
    for name, fabric in fit_all().items():
        print(name, ", ".join(f"{key}={getattr(fabric, key)}" for key in (*ALL, "all_reduce_gain")))
