"""Twelve programs, 200 runs each: half on a busy machine, with several hash seeds and folders. One digest each?

It takes half an hour on two idle cores. `python -m benchmarks.programs 0 77` runs the parts with these hash seeds only;
what two parts print adds up, because both compare with the digests that are committed.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.determinism import burners
from simulator import Trace, launch
from tests.simulator import catalogue

IS_BUSY = {"0": False, "1": True, "77": False, "4242": True}  # by hash seed: whether other processes want all cores


def main(*, quick: bool, hash_seeds: tuple[str, ...] = tuple(IS_BUSY)) -> bool:
    runs = 2 if quick else 50  # of each program, for each hash seed
    found = {name: Counter[str]() for name in catalogue.CASES}
    for seed in hash_seeds:
        with (
            tempfile.TemporaryDirectory(prefix=f"lockstep-{'long-' * len(seed)}") as folder,
            contextlib.chdir(folder),
            launch.new_world({"PYTHONHASHSEED": seed}),
            burners(3) if IS_BUSY[seed] else contextlib.nullcontext(),
        ):
            _run_all(found, runs, Path(folder), seed)
    committed = catalogue.committed()
    for name, digests in found.items():
        state = "as committed" if set(digests) == {committed[name]} else f"NOT the committed one: {dict(digests)}"
        print(f"{name}: {digests.total()} runs, {len(digests)} digest(s), {state}", flush=True)
    return all(set(digests) == {committed[name]} for name, digests in found.items())


def _run_all(found: dict[str, Counter[str]], runs: int, folder: Path, seed: str) -> None:
    seen: dict[str, Trace] = {}
    for k in range(runs):
        for i, (name, digests) in enumerate(found.items()):
            trace = catalogue.trace(name, folder / f"{k}-{i}")
            digests[trace.digest] += 1
            first = seen.setdefault(name, trace)
            if digests[trace.digest] == 1 and first is not trace:
                print(f"{name}, in round {k} of hash seed {seed}: {first.diff(trace)}", flush=True)
        print(f"hash seed {seed}: {k + 1} of {runs} rounds, {sum(map(len, found.values()))} digests", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(not main(quick=False, hash_seeds=tuple(sys.argv[1:]) or tuple(IS_BUSY)))
