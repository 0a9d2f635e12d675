"""The planner against published runs: step time, and whether it fits; baseline: one efficiency and the bubble.

`python -m benchmarks.planner_accuracy --runs FILE.csv [--feasibility FILE.csv] [--json] [--leave-one-source-out]`.
Columns as in simulator/planner/data/validation.csv and feasibility.csv, which are the defaults.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from simulator.errors import SimulatorError
from simulator.planner import calibrate
from simulator.planner.constants import FITTED, Constants
from simulator.planner.runs import DATA, Run, read_runs, readable_runs

PROMISED_IN_SAMPLE, PROMISED_LEFT_OUT, PROMISED_BALANCED = 0.07, 0.10, 0.85


def errors(runs: list[Run], constants: Constants) -> list[float]:
    """Predicted over measured step time, minus one."""
    return [calibrate.predicted_seconds(run, constants) / run.step_time_s - 1 for run in runs if run.step_time_s]


def ideal_seconds(run: Run) -> float:
    """FLOPs at peak, a third more where everything is recomputed, times the pipeline's bubble."""
    model, layout = run.model, run.layout
    flops = model.model_flops_per_token() * layout.global_batch * model.seq_len
    flops *= 4 / 3 if layout.recompute == "full" else 1
    bubble = 1 + (layout.pp - 1) / (layout.chunks * layout.accumulation)
    return flops / (layout.gpus * run.cluster.gpu.peak_flops["bfloat16"]) * bubble


def baseline_errors(runs: list[Run]) -> list[float]:
    """The efficiency is chosen on these very runs: the best that one constant can do."""
    timed = [run for run in runs if run.step_time_s]
    ratios = [ideal_seconds(run) / run.step_time_s for run in timed]
    candidates = (sorted(ratios) if ratios else [1.0]) + [k / 1000 for k in range(300, 900)]
    best = min(candidates, key=lambda e: sum(abs(r / e - 1) for r in ratios))
    return [r / best - 1 for r in ratios]


def classified(runs: list[Run], constants: Constants) -> dict[str, Any]:
    """Right and wrong answers to "does it fit", where the table says so."""
    known = [run for run in runs if run.fits is not None]
    said = [(calibrate.predicted_fits(run, constants), run.fits) for run in known]
    false_fits, false_ooms = said.count((True, False)), said.count((False, True))
    shares = [
        sum(guess == fits for guess, fits in said if fits is outcome) / count
        for outcome in (True, False)
        if (count := sum(fits is outcome for _, fits in said))
    ]
    return {
        "fit_accuracy": 1 - (false_fits + false_ooms) / len(said) if said else None,
        "fit_balanced_accuracy": sum(shares) / len(shares) if shares else None,
        "false_fits": false_fits,
        "false_ooms": false_ooms,
        "fit_rows": len(said),
    }


def left_out_errors(runs: list[Run]) -> dict[str, list[float]]:
    """Errors on each source's runs with constants that were fitted without that source."""
    found = {}
    for source in sorted({run.source for run in runs}):
        own = [run for run in runs if run.source == source]
        found[source] = errors(own, calibrate.fit(without=source))
    return found


def mean_absolute(values: list[float]) -> float | None:
    return sum(map(abs, values)) / len(values) if values else None


def report(runs: list[Run], placed: list[Run], constants: Constants = FITTED) -> dict[str, Any]:
    """Everything that --json prints; errors as fractions."""
    found = errors(runs, constants)
    rows = [
        {
            "id": run.id,
            "source": run.source,
            "measured_s": run.step_time_s,
            "predicted_s": calibrate.predicted_seconds(run, constants),
            "error": error,
        }
        for run, error in zip([run for run in runs if run.step_time_s], found, strict=True)
    ]
    return {
        "mape": mean_absolute(found),
        "median": statistics.median(map(abs, found)) if found else None,
        "max": max(map(abs, found)) if found else None,
        "bias": sum(found) / len(found) if found else None,
        "baseline_mape": mean_absolute(baseline_errors(runs)),
        "rows": len(rows),
        **classified(placed, constants),
        "runs": rows,
    }


def show(result: dict[str, Any]) -> None:
    print("| run | measured s | predicted s | error |\n| --- | --- | --- | --- |")
    for row in result["runs"]:
        words = f"{row['measured_s']:.2f} | {row['predicted_s']:.2f} | {100 * row['error']:+.1f} %"
        print(f"| {row['id']} | {words} |")
    if result["mape"] is not None:
        print(f"\nStep time of {result['rows']} runs: mean absolute error {percent(result['mape'])}, ", end="")
        print(f"median {percent(result['median'])}, worst {percent(result['max'])}; ", end="")
        print(f"one efficiency and the bubble: {percent(result['baseline_mape'])}.")
    if result["fit_rows"]:
        print(f"Fits or not, {result['fit_rows']} runs: {percent(result['fit_accuracy'])} right, balanced ", end="")
        print(f"{percent(result['fit_balanced_accuracy'])}; {result['false_fits']} said to fit did not, ", end="")
        print(f"{result['false_ooms']} said not to fit did.")


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def main(quick: bool = False) -> bool:
    runs, placed = read_runs(DATA / "validation.csv"), read_runs(DATA / "feasibility.csv")
    result = report(runs, placed)
    show(result)
    kept = result["mape"] <= PROMISED_IN_SAMPLE
    if quick:
        return kept
    by_source = left_out_errors(runs)
    print("\n| source left out of the fit | runs | mean absolute error |\n| --- | --- | --- |")
    for source, found in by_source.items():
        print(f"| {source} | {len(found)} | {percent(mean_absolute(found))} |")
    together = mean_absolute([error for found in by_source.values() for error in found]) or 0.0
    alone = classified([r for r in placed if r.source == "alephalpha"], calibrate.fit(without="alephalpha"))
    print(f"\nEach source predicted without its own runs: {percent(together)}; ", end="")
    print(f"fits or not on alephalpha, left out: balanced {percent(alone['fit_balanced_accuracy'])}.")
    return kept and together <= PROMISED_LEFT_OUT and alone["fit_balanced_accuracy"] >= PROMISED_BALANCED


def command_line() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner_accuracy", description=__doc__)
    parser.add_argument("--runs", type=Path, default=DATA / "validation.csv", help="runs with step times")
    parser.add_argument("--feasibility", type=Path, help="runs with a column `fits`")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--leave-one-source-out", action="store_true", help="also fit without each source: a minute")
    arguments = parser.parse_args()
    try:
        runs, problems = readable_runs(arguments.runs)
        placed, more = readable_runs(arguments.feasibility) if arguments.feasibility else ([], [])
    except SimulatorError as error:
        parser.exit(2, f"{error}\n")
    for problem in problems + more:
        print(problem, file=sys.stderr)
    result = {**report(runs, placed), "left_out_rows": len(problems + more)}
    if arguments.leave_one_source_out:
        by_source = left_out_errors([run for run in runs if run.step_time_s])
        result["left_out_mape"] = mean_absolute([error for found in by_source.values() for error in found])
    if arguments.json:
        print(json.dumps(result))
    else:
        show(result)
        if "left_out_mape" in result:
            print(f"Each source predicted without its own runs: {percent(result['left_out_mape'])}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(command_line())
