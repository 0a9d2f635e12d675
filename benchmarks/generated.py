"""1,000 generated programs with one defect and 1,000 healthy ones: is the diagnosis exact, and silent where it must be?

exact: the class and the culprits. suspected: a swap that stopped the ranks where leaving out a call would have, and is
named as the other reading. by values: a swap whose only trace is in the results. proven tie: the trace does not hold
which of several classes it was; the diagnosis names them all, the true one among them, and a healthy program that
a defect of the class named first turns into the very same trace was found and run (tests/diagnose/witness.py).

`python -m benchmarks.generated 40500 250` takes 250 seeds from 40,500 on: parts whose tables add up.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter

from simulator.diagnose import diagnose
from tests.diagnose.defects import INJECTIONS, faulty
from tests.diagnose.generator import Writer
from tests.diagnose.program import run_program
from tests.diagnose.score import BY_VALUES, EXACT, MISSED, SUSPECTED, TIE, score

COLUMNS = (EXACT, SUSPECTED, BY_VALUES, TIE, MISSED)
FIRST_SEED = 45_000  # the seeds below helped to write `diagnose`


def main(*, quick: bool) -> bool:
    return of_seeds(range(FIRST_SEED, FIRST_SEED + (10 * len(INJECTIONS) if quick else 1000)))


def of_seeds(seeds: range) -> bool:
    """The faulty and the healthy programs of these seeds."""
    are_found = diagnose_faulty(seeds)
    accused = sum(map(is_accused, seeds))
    print(f"healthy programs: {len(seeds)}, of these accused or not Completed: {accused}", flush=True)
    return are_found and not accused


def diagnose_faulty(seeds: range) -> bool:
    """Print how the faulty programs of these seeds are diagnosed; whether none is missed."""
    scores: Counter[tuple[str, str]] = Counter()
    seconds = []
    for seed in seeds:
        case = faulty(seed)
        run = run_program(case.program)
        began = time.perf_counter()
        diagnose(run.trace)
        seconds.append(time.perf_counter() - began)
        result, found = score(case, run)
        scores[case.kind, result] += 1
        if result in (MISSED, TIE):
            print(f"{result}: seed {seed}, {case.kind} by ranks {sorted(case.ranks)}; found: {found}", flush=True)
    _print_table(scores)
    print(f"a diagnosis takes {statistics.median(seconds) * 1e3:.1f} ms (median), {max(seconds) * 1e3:.0f} ms at most")
    return not any(result == MISSED for _, result in scores)


def is_accused(seed: int) -> bool:
    """Whether the healthy program of this seed does not complete, or is diagnosed."""
    run = run_program(Writer(seed).write())
    found = diagnose(run.trace)
    if run.outcome.name == "Completed" and found.is_healthy:
        return False
    print(f"healthy seed {seed}: {run.outcome.name}; {found}", flush=True)
    return True


def _print_table(scores: Counter[tuple[str, str]]) -> None:
    print(f"{'class':<26}{'programs':>9}" + "".join(f"{name:>12}" for name in COLUMNS))
    for kind in dict.fromkeys(kind for kind, _ in INJECTIONS):
        _print_row(kind, [scores[kind, name] for name in COLUMNS])
    _print_row("all", [sum(n for (_, result), n in scores.items() if result == name) for name in COLUMNS])


def _print_row(name: str, row: list[int]) -> None:
    print(f"{name:<26}{sum(row):>9}" + "".join(f"{n:>12}" for n in row))


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    raise SystemExit(not of_seeds(range(first, first + count)))
