"""Running mutants and variants, and what is wrong with what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from autograder import lab_file
from autograder.checks import find
from autograder.checks.check import OUTCOME_KEYS
from autograder.course import Course
from autograder.grading import JobHost, check_exercise
from autograder.matrix.solutions import Solution, solutions
from autograder.results import CheckResult, Params

SEED = "matrix"  # of the hidden cases that variants are tried on
SHORT_DEADLINE_S = 10.0  # for mutants that never come to an end
FEWEST_MUTANTS, FEWEST_VARIANTS = 4, 2


@dataclass(frozen=True)
class Row:
    """One solution and what the check said: ``seen`` are the finding keys in order, no ``problem`` if all is well."""

    solution: Solution
    seen: tuple[str, ...]
    points: str
    problem: str


def run(root: Path, chosen: list[Solution], jobs: int, say: Callable[[str], None]) -> list[Row]:
    """Run the solutions on ``jobs`` check processes; the rows in the order of ``chosen``."""
    hosts: SimpleQueue[JobHost] = SimpleQueue()
    started = [JobHost() for _ in range(max(1, min(jobs, len(chosen))))]
    for host in started:
        hosts.put(host)

    def one(solution: Solution) -> Row:
        host = hosts.get()
        try:
            return row(root, solution, host)
        finally:
            hosts.put(host)
            say(solution.name)

    try:
        with ThreadPoolExecutor(len(started)) as pool:
            return list(pool.map(one, chosen))
    finally:
        for host in started:
            host.close()


def row(root: Path, solution: Solution, host: JobHost) -> Row:
    """Run one solution: a mutant until the intended finding is there, a variant on visible and hidden cases."""
    if solution.kind == "variants":
        results = [_check(root, solution, p, host) for p in (Params(), Params("hidden", SEED))]
        worst = min(results, key=lambda result: result.points)
        problem = "" if all(r.passed and r.points == r.max_points for r in results) else "a right solution loses points"
        return Row(solution, _keys(worst), _points(worst), problem)
    result = _check(root, solution, Params(until=solution.finding), host)
    return Row(solution, _keys(result), _points(result), _mutant_problem(root, solution, result))


def _check(root: Path, solution: Solution, params: Params, host: JobHost) -> CheckResult:
    deadline_s = SHORT_DEADLINE_S if solution.finding == "deadline" else None
    return check_exercise(
        solution.source, solution.exercise, params, host=host, root=root, deadline_s=deadline_s, accepted=True
    )


def _keys(result: CheckResult) -> tuple[str, ...]:
    return tuple(finding.key for finding in result.findings)


def _points(result: CheckResult) -> str:
    return f"{result.points:g} of {result.max_points:g}"


def _mutant_problem(root: Path, mutant: Solution, result: CheckResult) -> str:
    if result.passed or not result.findings:
        return "a wrong solution passes"
    if result.findings[0].key != mutant.finding:
        return f"rejected for another reason than {mutant.finding}"
    hints = lab_file.load(root, mutant.exercise.split("/")[0]).exercise(mutant.exercise).hints
    shown = mutant.finding if mutant.finding in hints else "none"
    return "" if shown == mutant.hint else f"the hint that opens is {shown}, intended is {mutant.hint}"


def gaps(root: Path, course: Course, exercise: str = "") -> Iterator[str]:
    """What the matrix does not cover: too few solutions, findings that no mutant shows, solutions of no exercise."""
    known = [e.id for e in course.exercises()]
    mutants, variants = solutions(root, "mutants", exercise), solutions(root, "variants", exercise)
    for solution in (*mutants, *variants):
        if solution.exercise not in known:
            yield f"{solution.name}: there is no exercise {solution.exercise}"
    for exercise_id in known if not exercise else [exercise]:
        own = [m for m in mutants if m.exercise == exercise_id]
        if len(own) < FEWEST_MUTANTS:
            yield f"{exercise_id} has {len(own)} mutants, an exercise needs {FEWEST_MUTANTS}"
        if (count := sum(v.exercise == exercise_id for v in variants)) < FEWEST_VARIANTS:
            yield f"{exercise_id} has {count} variants, an exercise needs {FEWEST_VARIANTS}"
        intended = {m.finding for m in own}
        for key in find(exercise_id).own_keys:
            if key not in intended:
                yield f"{exercise_id}: no mutant is meant for the finding {key}"
    if not exercise:
        for key in sorted(set(OUTCOME_KEYS) - {m.finding for m in mutants} - {"unfinished"}):  # that is the starter
            yield f"no mutant of the course is meant for the finding {key}"
