"""All generated files of the course as one mapping: path below the course folder -> bytes.

A generator that returns bytes makes "nothing is written if anything is malformed" and ``--check`` trivial.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from autograder import course as course_file
from autograder import hints, questions
from autograder.build import notebook
from autograder.build.source import SourceFile, read, starter, with_includes
from autograder.build.validate import hint_problems, include_problems, problems, question_problems
from autograder.course import Course, Exercise, Lab
from autograder.errors import CourseFileError, SolutionMarkerError
from autograder.hints import Hint
from autograder.lab_file import LabExercise, LabFile
from autograder.questions import Question

README = "README.md"


class LabSource(NamedTuple):
    """A lab's sources, read: the whole notebook with its includes, the hints by exercise id, the questions by id."""

    notebook: SourceFile
    hints: dict[str, dict[str, Hint]]
    questions: dict[str, Question]


def generate(root: Path, only: str = "") -> dict[str, bytes]:
    """Every generated file, or those of one lab and the README.

    Raises:
        SolutionMarkerError: it lists every problem; nothing is returned then.
    """
    if not (root / "solutions").is_dir():
        raise CourseFileError("there is no solutions/ here: lockstep build is for authors of the course")
    course = course_file.load_sources(root, only)
    found: list[str] = []
    files: dict[str, bytes] = {}
    if only in ("", "start"):
        start = read_lab(root, course, None, found)
        files["labs/start.ipynb"] = b"" if found else notebook.student(start.notebook, None, {})
    for lab in course.labs():
        if lab.exercises and only in ("", lab.id):
            files |= _lab(root, course, lab, found)
    if (root / README).is_file():
        files |= _readme(root, course, found)
    if found:
        raise SolutionMarkerError(found)
    return files


def read_lab(root: Path, course: Course, lab: Lab | None, found: list[str]) -> LabSource:
    """Read all sources of a lab (None: of the start notebook); every problem is added to ``found``."""
    name = f"solutions/{lab.id if lab else 'start'}"
    here: list[str] = []
    source = read(root / name / "lab.py", f"{name}/lab.py", here)
    parts = {e.name: f"{name}/{e.name}/cells.py" for e in lab.exercises} if lab else {}
    cells = {key: read(root / path, path, here, owner=key) for key, path in parts.items()}
    asked = _questions(root, f"{name}/questions.yaml", here)
    if not here:
        here += include_problems(source, lab)
        source = with_includes(source, cells)
        here += problems(source, course, lab) + question_problems(f"{name}/questions.yaml", source, asked)
    hint_files = {e.id: _hints(root, e, here) for e in lab.exercises} if lab else {}
    found += here
    return LabSource(source, hint_files, asked)


def _questions(root: Path, name: str, found: list[str]) -> dict[str, Question]:
    try:
        return questions.load_yaml(root / name, name)
    except CourseFileError as error:
        found.append(str(error))
        return {}


def _hints(root: Path, exercise: Exercise, found: list[str]) -> dict[str, Hint]:
    name = f"solutions/{exercise.id}/hints.yaml"
    try:
        given = hints.load_yaml(root / name, name)
        found += hint_problems(name, given, exercise)
    except CourseFileError as error:
        found.append(str(error))
        return {}
    return given


def _lab(root: Path, course: Course, lab: Lab, found: list[str]) -> dict[str, bytes]:
    here: list[str] = []
    source = read_lab(root, course, lab, here)
    found += here
    if here:
        return {}
    starters = {c.exercise: starter(c.source) for c in source.notebook.of_kind("exercise")}
    own = {e.id: notebook.setup_source(source.notebook, e.name) for e in lab.exercises}
    exercises = {e.id: LabExercise(e, own[e.id], starters[e.id], source.hints[e.id]) for e in lab.exercises}
    given = notebook.setup_source(source.notebook)
    facts = LabFile(lab=lab.id, setup=given, exercises=exercises, questions=source.questions)
    text = msgspec.json.format(msgspec.json.encode(facts, order="deterministic"), indent=1) + b"\n"
    student = notebook.student(source.notebook, lab, source.questions)
    return {f"labs/{lab.id}/{lab.id}.ipynb": student, f"labs/{lab.id}/lab.json": text}


def _readme(root: Path, course: Course, found: list[str]) -> dict[str, bytes]:
    text = (root / README).read_text(encoding="utf-8")
    before, begin, rest = text.partition(course_file.README_BEGIN)
    _, end, after = rest.partition(course_file.README_END)
    if not begin and not end:
        return {}
    if not begin or not end:
        found.append(f"{README}:1: the lab table needs both of its marker comments")
        return {}
    return {README: (before + course_file.readme_table(course) + after).encode()}


def differences(root: Path, files: dict[str, bytes]) -> list[str]:
    """One sentence for every generated file that is missing or differs from ``files``."""
    said = []
    for name, content in sorted(files.items()):
        path = root / name
        if not path.is_file():
            said.append(f"{name} is missing")
        elif path.read_bytes() != content:
            said.append(f"{name} differs from what its sources give")
    return said


def write(root: Path, files: dict[str, bytes], *, force: bool = False) -> list[str]:
    """Write what differs, each file atomically; the names written.

    Raises:
        CourseFileError: a notebook that would be overwritten was edited since it was built. Nothing is written then,
            unless ``force``.
    """
    changed = [name for name, content in sorted(files.items()) if _differs(root / name, content)]
    edited = [name for name in changed if name.endswith(".ipynb") and notebook.was_edited(root / name)]
    if edited and not force:
        raise CourseFileError(
            f"nothing was written: edited or run since it was built: {', '.join(edited)}. Move it away to keep it, or "
            "overwrite it with `lockstep build --force`. What students open is written in solutions/."
        )
    for name in changed:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".build-")
        with os.fdopen(handle, "wb") as file:
            file.write(files[name])
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    return changed


def _differs(path: Path, content: bytes) -> bool:
    return not path.is_file() or path.read_bytes() != content


def nbgrader_source(root: Path, lab_id: str, out: Path) -> Path:
    """Write nbgrader's source/<lab>/<lab>.ipynb below ``out``: the student notebook with its grading metadata.

    Solutions are already cleared, so nbgrader must not clear them again: leave ClearSolutions out of
    ``GenerateAssignment.preprocessors``.
    """
    content = generate(root)[f"labs/{lab_id}/{lab_id}.ipynb"]
    path = out / lab_id / f"{lab_id}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def solution_notebook(root: Path, lab_id: str) -> bytes:
    """The reference notebook of a lab, or of ``start``."""
    course = course_file.load_sources(root, lab_id)
    lab = None if lab_id == "start" else course.lab(lab_id)
    found: list[str] = []
    source = read_lab(root, course, lab, found)
    if found:
        raise SolutionMarkerError(found)
    return notebook.solution(source.notebook, lab, source.questions)
