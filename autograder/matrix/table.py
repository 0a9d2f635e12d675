"""The matrix as text for the terminal and as docs/mutation_matrix.md."""

from __future__ import annotations

from pathlib import Path

from autograder.checks import find
from autograder.course import Course, Exercise
from autograder.matrix.matrix import Row
from autograder.matrix.solutions import Solution, solutions

PAGE = "docs/mutation_matrix.md"
_HEAD = """# The grader, graded

Written by `lockstep mutants --write`, never by hand. `make test` runs a sample of it,
the slow tests run all.

A *mutant* is a wrong solution: the check must reject it with the finding in its row first, and the hints in its
row must open. A *variant* is a right solution that looks different: it must get full points, on visible and on hidden
cases.

*Rests on*: **witnessed** properties are judged from the trace, which the trusted side writes: order, partners, exits,
virtual times, and the sizes that were announced. **Reported** values come from the rank's own process, which the
student's code shares; they are compared on the trusted side, as bytes and plain numbers. **Both**: a reported value is
believed only where the trace shows that the rank could know it. Of a function that runs without ranks everything is
reported. What somebody who sets out to lie can still forge: docs/instructors.md, "Which points rest on what".
"""


def terminal(rows: list[Row]) -> str:
    """One line a solution: what it is, intended and seen finding, hint, points, and what is wrong."""
    lines = []
    for r in rows:
        s, mark = r.solution, "✗" if r.problem else "✓"
        if s.kind == "mutants":
            seen = " ".join(r.seen) or "nothing"
            what = f"intended {s.finding}, seen {seen}, hint {s.hint}, {r.points}"
        else:
            what = f"full points wanted, {r.points}" + (f", seen {' '.join(r.seen)}" if r.seen else "")
        lines.append(f"{mark} {s.kind[:-1]:7} {s.name}: {what}" + (f"  <- {r.problem}" if r.problem else ""))
    return "\n".join(lines)


def page(root: Path, course: Course) -> bytes:
    """The page, from what the solutions declare and the checks describe."""
    blocks = [_HEAD]
    for exercise in course.exercises():
        mutants, variants = (solutions(root, kind, exercise.id) for kind in ("mutants", "variants"))
        blocks.append(f"## {exercise.id}: {exercise.title}\n\n{_properties(exercise)}")
        blocks.append(_mutants(mutants))
        blocks.append(_variants(variants))
    return "\n".join(blocks).encode()


def _properties(exercise: Exercise) -> str:
    titles = {part.key: part.title for part in exercise.parts}
    lines = ["| finding | loses the part | rests on |", "|---|---|---|"]
    held = find(exercise.id).properties
    lines += [f"| `{p.key}` | {titles.get(p.loses, '')} | {p.rests_on} |" for p in held]
    return "\n".join(lines) + "\n"


def _mutants(chosen: list[Solution]) -> str:
    lines = ["| mutant | what is wrong | rejected with | hint |", "|---|---|---|---|"]
    lines += [f"| {m.path.stem} | {_cell(m.why)} | `{m.finding}` | {m.hint} |" for m in chosen]
    return "\n".join(lines) + "\n"


def _variants(chosen: list[Solution]) -> str:
    lines = ["| variant | what is different |", "|---|---|"]
    return "\n".join(lines + [f"| {v.path.stem} | {_cell(v.why)} |" for v in chosen]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
