"""`python -m simulator.planner.calibrate [--leave-one-out]`: the eight constants, fitted to published runs.

Time: the six constants that minimise the mean absolute logarithm of predicted over measured step time, every source
counting the same however many runs it published. Memory: the two that classify most runs right as fitting or not,
every source counting the same, and fitting as much as not fitting.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from simulator.cluster.fit import minimise
from simulator.planner.constants import Constants
from simulator.planner.memory import GIB, memory
from simulator.planner.runs import DATA, Run, read_runs
from simulator.planner.timing import step_time

TIME = (
    "gemm_efficiency",
    "gemm_traffic",
    "attention_efficiency",
    "elementwise_bandwidth",
    "overlap",
    "synchronisation",
)
START = (0.75, 0.6, 0.35, 0.8, 0.3, 0.004)
#: No more is possible: all of what a GPU achieves in one product, and of memory bandwidth what a long copy reaches.
LARGEST = {"gemm_efficiency": 1.0, "attention_efficiency": 1.0, "elementwise_bandwidth": 0.9, "overlap": 1.0}
#: What others measured outside of torch's allocator: context and kernels 0.5 to 1.8 GiB, NCCL 1 to 2 GiB more.
CONTEXT_GIB = (1.0, 1.5, 2.0, 2.5, 3.0)
FRAGMENTATION = (1.0, 1.02, 1.04, 1.06, 1.08, 1.1)


def predicted_seconds(run: Run, constants: Constants) -> float:
    return step_time(run.model, run.layout, run.cluster, constants).total


def predicted_fits(run: Run, constants: Constants) -> bool:
    return memory(run.model, run.layout, constants).total <= run.cluster.gpu.memory_gib * GIB


def _by_source(runs: Iterable[Run]) -> list[list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.source, []).append(run)
    return list(groups.values())


def time_loss(runs: Sequence[Run], constants: Constants) -> float:
    """Mean over sources of the mean absolute logarithm of predicted over measured seconds."""

    def miss(run: Run) -> float:
        assert run.step_time_s is not None
        return abs(math.log(predicted_seconds(run, constants) / run.step_time_s))

    groups = _by_source(runs)
    return sum(sum(map(miss, group)) / len(group) for group in groups) / len(groups)


def fit_time(runs: Sequence[Run], start: Constants) -> Constants:
    """`start` with the six constants of time fitted to the runs that have a step time."""
    timed = [run for run in runs if run.step_time_s]

    def constants_of(values: Sequence[float]) -> Constants:
        named: dict[str, Any] = dict(zip(TIME, values, strict=True))
        named.update({name: min(named[name], largest) for name, largest in LARGEST.items()})
        return replace(start, **named)

    found = minimise(lambda values: time_loss(timed, constants_of(values)), START, smallest_step=1e-2)
    return constants_of([float(f"{value:.3g}") for value in found])


def memory_loss(runs: Sequence[Run], constants: Constants) -> float:
    """Mean over sources and outcomes of the share of runs that are put on the wrong side."""
    shares = []
    for group in _by_source(runs):
        for fits in (True, False):
            own = [run for run in group if run.fits is fits]
            if own:
                shares.append(sum(predicted_fits(run, constants) is not fits for run in own) / len(own))
    return sum(shares) / len(shares)


def fit_memory(runs: Sequence[Run], start: Constants) -> Constants:
    """`start` with the two constants of memory that misplace least, the smaller ones where several do."""
    candidates = [
        replace(start, context_gib=context, fragmentation=factor)
        for context, factor in product(CONTEXT_GIB, FRAGMENTATION)
    ]
    known = [run for run in runs if run.fits is not None]
    return min(candidates, key=lambda constants: memory_loss(known, constants))


def calibration_runs() -> tuple[list[Run], list[Run]]:
    """(runs with step times, runs known to fit or not): the tables in data/."""
    timed = read_runs(DATA / "validation.csv") + read_runs(DATA / "calibration.csv")
    return timed, read_runs(DATA / "feasibility.csv")


def fit(without: str = "") -> Constants:
    """All eight constants, from every source but `without`."""
    timed, placed = calibration_runs()
    constants = fit_time([run for run in timed if run.source != without], Constants())
    return fit_memory([run for run in placed if run.source != without], constants)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m simulator.planner.calibrate", description=__doc__)
    parser.add_argument("--leave-one-out", action="store_true", help="also fit without each source of the validation")
    arguments = parser.parse_args()
    print(fit())
    if arguments.leave_one_out:
        for source in sorted({run.source for run in read_runs(DATA / "validation.csv")}):
            print(f"without {source}: {fit(without=source)}", flush=True)


if __name__ == "__main__":
    main()
