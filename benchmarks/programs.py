"""Twelve programs, 200 runs each: half on a busy machine, with several hash seeds and folders. One digest each?"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks.determinism import burners
from simulator import launch
from tests.simulator import catalogue

HASH_SEEDS = ("0", "1", "77", "4242")


def main(*, quick: bool) -> bool:
    runs = 2 if quick else 50  # of each program, for each hash seed
    found: dict[str, set[str]] = {name: set() for name in catalogue.CASES}
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        for i, seed in enumerate(HASH_SEEDS):
            with launch.new_world({"PYTHONHASHSEED": seed}), burners(3) if i % 2 else nullcontext():
                _run_all(found, runs, Path(folder) / f"seed-{seed}")
    committed = catalogue.committed()
    for name, digests in found.items():
        state = "as committed" if digests == {committed[name]} else f"NOT the committed one: {sorted(digests)}"
        print(f"{name}: {runs * len(HASH_SEEDS)} runs, {len(digests)} digest(s), {state}", flush=True)
    return all(digests == {committed[name]} for name, digests in found.items())


def _run_all(found: dict[str, set[str]], runs: int, folder: Path) -> None:
    for k in range(runs):
        for name, digests in found.items():
            digests.add(catalogue.digest(name, folder / f"{k}-{len(digests)}"))
