"""1,000 generated programs with one defect and 1,000 healthy ones: is the diagnosis exact, and silent where it must be?

"exact": the class and the culprits. "other reading": the culprits, and a class that leaves the same trace (named in
the diagnosis; see tests/diagnose/defects.py for which and why). "by values": a swap whose only trace is in the results.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter

from simulator.diagnose import diagnose
from tests.diagnose.defects import INJECTIONS, faulty
from tests.diagnose.generator import Writer
from tests.diagnose.score import run_program, score

COLUMNS = ("exact", "other reading", "by values", "missed")


def main(*, quick: bool) -> bool:
    count = 10 * len(INJECTIONS) if quick else 1000
    scores: Counter[tuple[str, str]] = Counter()
    seconds = []
    for seed in range(count):
        case = faulty(seed)
        run = run_program(case.program)
        began = time.perf_counter()
        diagnose(run.trace)
        seconds.append(time.perf_counter() - began)
        result, found = score(case, run)
        scores[case.kind, result] += 1
        if result == "missed":
            print(f"missed: seed {seed}, {case.kind} by ranks {sorted(case.ranks)}; found: {found}")
    _print_table(scores)
    print(f"a diagnosis takes {statistics.median(seconds) * 1e3:.1f} ms (median), {max(seconds) * 1e3:.0f} ms at most")
    accused = sum(_is_accused(seed) for seed in range(count))
    print(f"healthy programs: {count}, of these accused or not Completed: {accused}")
    return not accused and not any(result == "missed" for _, result in scores)


def _is_accused(seed: int) -> bool:
    run = run_program(Writer(seed).write())
    found = diagnose(run.trace)
    if run.outcome.name == "Completed" and found.is_healthy:
        return False
    print(f"healthy seed {seed}: {run.outcome.name}; {found}")
    return True


def _print_table(scores: Counter[tuple[str, str]]) -> None:
    print(f"{'class':<26}{'programs':>9}{'found':>7}" + "".join(f"{name:>15}" for name in COLUMNS))
    for kind in dict.fromkeys(kind for kind, _ in INJECTIONS):
        row = [scores[kind, name] for name in COLUMNS]
        _print_row(kind, row)
    _print_row("all", [sum(n for (_, result), n in scores.items() if result == name) for name in COLUMNS])


def _print_row(name: str, row: list[int]) -> None:
    print(f"{name:<26}{sum(row):>9}{sum(row[:3]):>7}" + "".join(f"{n:>15}" for n in row))
