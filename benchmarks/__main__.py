"""`python -m benchmarks [NAME ...] [--quick]`: run the measurements and print what they show."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    *("collectives", "determinism", "generated", "grading", "hang", "launch", "launches", "memory"),
    *("planner_accuracy", "programs", "step", "taxonomy", "timeline"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in NAMES]:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    failed = []
    for name in arguments.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n## {name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        if not module.main(quick=arguments.quick):
            failed.append(name)
    if failed:
        print(f"\nNot as promised: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
