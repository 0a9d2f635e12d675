"""Modelled against measured collectives, by cluster and group size."""

from __future__ import annotations

from itertools import groupby

from simulator.cluster import Cluster, get_cluster
from simulator.cluster.fit import Measurement, mean_absolute, measurements, relative_errors

MIB = 2**20
#: On the nodes with eight HDR ports: mean absolute error from 1 MiB up, and below.
PROMISED = {"large": 0.15, "small": 0.25}
#: Cluster, words that its measurements carry, whether the promise is about them.
TABLES = (
    ("a100-80gb", ("Echo",), True),
    ("a100-80gb", ("nccl-tests 8xA100",), False),
    ("a100-80gb-efa4", ("p4de",), False),
    ("h200", ("8xH200", "NVLS"), False),
    ("h100-efa32", ("p5.48xlarge",), False),
)


def percent(errors: list[float], of: str = "mean") -> str:
    if not errors:
        return "-"
    return f"{100 * (mean_absolute(errors) if of == 'mean' else max(map(abs, errors))):.1f} %"


def row(name: str, cluster: Cluster, rows: list[Measurement], *, promised: bool) -> bool:
    small = relative_errors(cluster, [m for m in rows if m.num_bytes < MIB])
    large = relative_errors(cluster, [m for m in rows if m.num_bytes >= MIB])
    kept = not promised or (mean_absolute(small) <= PROMISED["small"] and mean_absolute(large) <= PROMISED["large"])
    words = (
        *(name, rows[0].op, str(rows[0].shape.size), str(len(rows)), percent(small), percent(large)),
        *(percent(small + large, "max"), cluster.basis(rows[0].op, rows[0].shape)),
        "" if kept else "NOT AS PROMISED",
    )
    print("| " + " | ".join(words) + " |")
    return kept


def derived() -> None:
    """One example of each collective that nobody measured: labelled, so that no reader takes it for a measurement."""
    cluster = get_cluster("a100-80gb")
    print("\n64 MiB on a100-80gb:\n\n| collective | 8 GPUs | 64 GPUs | basis |\n| --- | --- | --- | --- |")
    for op in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "gather"):
        shapes = [cluster.shape(range(size)) for size in (8, 64)]
        times = [f"{1e3 * cluster.collective_s(op, 64 * MIB, shape):.2f} ms" for shape in shapes]
        print(f"| {op} | {' | '.join(times)} | {cluster.basis(op, shapes[1])} |")


def main(quick: bool = False) -> bool:
    print("| cluster | collective | GPUs | sizes | < 1 MiB | >= 1 MiB | worst | basis | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    kept = True
    for name, words, promised in TABLES:
        cluster = get_cluster(name)
        chosen = [m for m in measurements() if all(w in f"{m.source} {m.hardware} {m.network}" for w in words)]
        for _, rows in groupby(chosen, key=lambda m: (m.op, m.shape)):
            kept &= row(name, cluster, list(rows), promised=promised)
    derived()
    return kept
