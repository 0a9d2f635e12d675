"""Everything that can be wrong with a lab's sources, found before anything is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder import questions
from autograder.build.source import Cell, SourceFile, marker_problems, starter
from autograder.checks import hint_keys
from autograder.course import Course, Exercise, Lab
from autograder.errors import CourseFileError
from autograder.hints import Hint
from autograder.questions import Question

KNOWN_TAGS = {"setup", "raises-exception"}
_CHECK_CALL = re.compile(r"^\s*check\(", re.MULTILINE)
_NUMBERS = re.compile(r"(\d+(?:\.\d+)?)\s*(minutes|points)\b")


def problems(source: SourceFile, course: Course, lab: Lab | None) -> list[str]:
    """Every problem of one solutions file as ``file:line: sentence``; ``lab`` is None for the start notebook."""
    found: list[tuple[str, int, str]] = []
    for cell in source.cells:
        found += [(cell.file, line, text) for line, text in marker_problems(cell)]
        found += [(cell.file, cell.line, text) for text in _cell_problems(cell)]
    found += _exercise_problems(source, lab)
    found += _heading_problems(source, course)
    return [f"{file}:{line}: {text}" for file, line, text in sorted(found)]


def include_problems(source: SourceFile, lab: Lab | None) -> list[str]:
    """Every exercise of the lab is included once in lab.py; other names must be planned ones."""
    there = [e.name for e in lab.exercises] if lab else []
    planned = lab.planned if lab else ()
    includes = source.of_kind("include")
    names = [cell.exercise for cell in includes]
    found = [
        (1, f"# include: {name} is missing: it says where the exercise goes") for name in there if name not in names
    ]
    for cell in includes:
        if cell.exercise not in there and cell.exercise not in planned:
            found.append((cell.line, f"course.yaml does not name {cell.exercise!r} in this lab"))
        if names.count(cell.exercise) > 1:
            found.append((cell.line, f"{cell.exercise} is included more than once"))
    return [f"{source.name}:{line}: {text}" for line, text in found]


def question_problems(name: str, source: SourceFile, asked: dict[str, Question]) -> list[str]:
    """What is wrong with the questions themselves, and questions that no cell shows or that are not there."""
    found = [f"{name}:1: {text}" for text in questions.problems(asked, source.headings())]
    shown = source.of_kind("question")
    unknown = [cell for cell in shown if cell.exercise not in asked]
    found += [f"{cell.file}:{cell.line}: there is no question {cell.exercise!r} in {name}" for cell in unknown]
    times = {key: sum(cell.exercise == key for cell in shown) for key in asked}
    one = "one cell must hold `# question: {}`"
    return found + [f"{name}:1: {key} is shown {n} times: {one.format(key)}" for key, n in times.items() if n != 1]


def _cell_problems(cell: Cell) -> Iterator[str]:
    for tag in sorted(set(cell.tags) - KNOWN_TAGS):
        yield f"unknown tag {tag!r} (known: {', '.join(sorted(KNOWN_TAGS))})"
    if cell.kind == "code" and _CHECK_CALL.search(cell.source):
        yield 'a check cell holds exactly check("lab/name") and nothing else'
    if cell.kind == "code" and "# exercise:" in cell.source:
        yield "'# exercise: <id>' must be the first line of its cell and hold one id"
    if cell.kind == "setup" and (error := _syntax_error(cell.source)):
        yield f"the setup cell is not valid Python: {error}"


def _exercise_problems(source: SourceFile, lab: Lab | None) -> Iterator[tuple[str, int, str]]:
    known = {e.id: e for e in lab.exercises} if lab else {}
    where = f"a lab {lab.id!r}" if lab else "the start notebook, which has none"
    seen: dict[tuple[str, str], int] = {}
    for cell in source.cells:
        if cell.kind not in ("exercise", "check"):
            continue
        if (cell.kind, cell.exercise) in seen:
            line = seen[cell.kind, cell.exercise]
            yield cell.file, cell.line, f"a second {cell.kind} cell of {cell.exercise} (the first is at line {line})"
        elif cell.exercise not in known:
            text = f"{cell.exercise!r} is no exercise of {where} (known: {', '.join(known) or 'none'})"
            yield cell.file, cell.line, text
        elif cell.kind == "check" and ("exercise", cell.exercise) not in seen:
            yield cell.file, cell.line, f"the check of {cell.exercise} comes before its exercise cell"
        elif cell.kind == "exercise":
            for text in _starter_problems(cell, known[cell.exercise]):
                yield cell.file, cell.line, text
        seen.setdefault((cell.kind, cell.exercise), cell.line)
    for exercise_id in known:
        for kind in ("exercise", "check"):
            if (kind, exercise_id) not in seen:
                file = f"solutions/{exercise_id}/cells.py"
                yield file, 1, f"{exercise_id} has an exercise.yaml but no {kind} cell here"
    if known and not source.of_kind("setup"):
        yield source.name, 1, 'a lab with exercises needs a cell tagged "setup" with the imports that they use'


def _starter_problems(cell: Cell, exercise: Exercise) -> Iterator[str]:
    if marker_problems(cell):
        return
    student = starter(cell.source)
    if error := _syntax_error(student):
        yield f"the student's version of the cell is not valid Python: {error}"
        return
    names = {n for node in ast.parse(student).body for n in _bound(node)}
    for name in exercise.defines:
        if name not in names:
            yield f"the student's version of the cell does not define {name}, which exercise.yaml lists under defines"


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    return []


def _syntax_error(source: str) -> str | None:
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno} of the cell)"
    return None


def _heading_problems(source: SourceFile, course: Course) -> Iterator[tuple[str, int, str]]:
    """Minutes and points in the last heading above an exercise must be those of exercise.yaml."""
    heading: tuple[str, int, str] | None = None
    known = {e.id: e for e in course.exercises()}
    for cell in source.cells:
        if cell.kind == "markdown":
            lines = [(cell.file, n, t) for n, t in enumerate(cell.source.split("\n"), cell.line) if t.startswith("#")]
            heading = lines[-1] if lines else heading
        elif cell.kind == "exercise" and cell.exercise in known and heading:
            exercise, (file, line, text) = known[cell.exercise], heading
            for number, unit in _NUMBERS.findall(text):
                told = exercise.minutes if unit == "minutes" else exercise.points
                if float(number) != told:
                    yield file, line, f"the heading says {number} {unit}, exercise.yaml says {told:g}"


def hint_problems(name: str, given: dict[str, Hint], exercise: Exercise) -> list[str]:
    """Missing, unknown and empty hints of an exercise."""
    try:
        needed = hint_keys(exercise.id)
    except CourseFileError as error:
        return [f"{name}:1: {error}"]
    found = [f"{name}:1: there are no hints for {key!r}" for key in needed if key not in given]
    found += [f"{name}:1: no finding is called {key!r}" for key in sorted(given.keys() - set(needed))]
    for key, hint in given.items():
        empty = [stage for stage in hint.__struct_fields__ if not getattr(hint, stage).strip()]
        found += [f"{name}:1: {key}.{stage} is empty" for stage in empty]
    return found
