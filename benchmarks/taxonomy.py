"""How distributed programs go wrong: outcome and diagnosis here, in how much time, and what plain gloo does with them.

`python -m benchmarks.taxonomy --write` also puts the table into docs/performance.md, between its markers.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import simulator
from benchmarks import gloo
from simulator.coordinator.state import ranks_text
from tests.diagnose.taxonomy import CASES, Case

LIMIT_S = 0.5  # wall-clock time to run and diagnose, on an idle machine ...
LIMIT_RATIO = 3  # ... and on any machine in healthy runs of four ranks, measured at the same time
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
HEALTHY = next(case for case in CASES if case.name == "waits the other way round")
BEGIN, END = "<!-- taxonomy:begin -->", "<!-- taxonomy:end -->"


def main(*, quick: bool, write: bool = False) -> bool:
    repetitions = 1 if quick else 5
    simulator.run(CASES[0].program, echo=False)  # warm
    healthy = min(_timed(HEALTHY)[0] for _ in range(2 * repetitions))
    rows, slowest, ok = [], 0.0, True
    for case, ends in zip(CASES, gloo.observe([case.name for case in CASES]), strict=True):
        seconds, run, found = min((_timed(case) for _ in range(repetitions)), key=lambda result: result[0])
        as_expected = (run.outcome.name, found.kind, found.ranks) == (case.outcome, case.kind, case.ranks)
        ok &= as_expected
        slowest = max(slowest, seconds)
        blamed = ", ".join(map(str, found.ranks)) or "-"
        rows.append((case.name, run.outcome.name, found.kind, blamed, f"{seconds:.2f}", _on_gloo(case, ends)))
        print(" | ".join(rows[-1]) + ("" if as_expected else f"   NOT AS EXPECTED: {found}"), flush=True)
    note = (
        f"{len(rows)} cases, 4 ranks where not said. Seconds: to run and diagnose, best of {repetitions}; the slowest "
        f"took {slowest:.2f} s, {slowest / healthy:.1f} times a healthy run of three all-reduces ({healthy:.2f} s)."
    )
    print(note)
    if write:
        _write(rows, note)
    return ok and slowest < max(LIMIT_S, LIMIT_RATIO * healthy)


def _timed(case: Case) -> tuple[float, simulator.Run, simulator.Diagnosis]:
    began = time.perf_counter()
    run = simulator.run(case.program, case.world_size, echo=False)
    found = simulator.diagnose(run.trace)
    return time.perf_counter() - began, run, found


def _on_gloo(case: Case, ends: list[str]) -> str:
    """What ranks saw, told by kind of end."""
    said: dict[str, list[int]] = {}
    for rank, end in enumerate(ends):
        said.setdefault(_kind_of_end(case, end), []).append(rank)
    if len(said) == 1:
        return f"all ranks: {next(iter(said))}"
    return "; ".join(f"{ranks_text(ranks)}: {end}" for end, ranks in said.items())


def _kind_of_end(case: Case, end: str) -> str:
    if end.startswith("="):
        wrong = case.right is not None and float(end[1:]) != case.right
        return f"**silently wrong** ({float(end[1:]):g}, right is {case.right:g})" if wrong else "no error"
    if "closed" in end or "reset" in end:
        return "connection closed by peer"
    if "imed out" in end or "timeout" in end.lower():
        return f"timeout ({gloo.TIMEOUT_S:g} s)"
    return end.splitlines()[0][:60].replace("|", "/")


def _write(rows: list[tuple[str, ...]], note: str) -> None:
    head = ("program", "outcome", "diagnosis", "ranks", "seconds", "plain gloo, timeout of 2 s")
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    text = DOCUMENT.read_text() if DOCUMENT.exists() else f"# Measured\n\n## Taxonomy of failures\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{note}\n\n" + "\n".join(lines) + f"\n{END}{after}")
    print(f"written to {DOCUMENT.name}")


if __name__ == "__main__":
    raise SystemExit(not main(quick="--quick" in sys.argv, write="--write" in sys.argv))
