"""All generated files of the course as one mapping: path below the course folder -> bytes.

A generator that returns bytes makes "nothing is written if anything is malformed" and ``--check`` trivial.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from autograder import course as course_file
from autograder import hints
from autograder.build import notebook
from autograder.build.source import SourceFile, read, starter
from autograder.build.validate import hint_problems, problems
from autograder.course import Course, Lab
from autograder.errors import CourseFileError, SolutionMarkerError
from autograder.lab_file import LabExercise, LabFile

README = "README.md"


def generate(root: Path) -> dict[str, bytes]:
    """Every generated file. SolutionMarkerError lists every problem of every source; then nothing is returned."""
    course = course_file.load(root)
    if not (root / "solutions").is_dir():
        raise CourseFileError("there is no solutions/ here: lockstep build is for authors of the course")
    found: list[str] = []
    files: dict[str, bytes] = {}
    start = _read(root, "start", found)
    found += problems(start, course, None)
    if not found:
        files["labs/start.ipynb"] = notebook.student(start, None)
    for lab in course.labs():
        if lab.exercises:
            files |= _lab(root, course, lab, found)
    if (root / README).is_file():
        files |= _readme(root, course, found)
    if found:
        raise SolutionMarkerError(found)
    return files


def _read(root: Path, lab_id: str, found: list[str]) -> SourceFile:
    name = f"solutions/{lab_id}/lab.py"
    return read(root / name, name, found)


def _lab(root: Path, course: Course, lab: Lab, found: list[str]) -> dict[str, bytes]:
    here: list[str] = []
    source = _read(root, lab.id, here)
    if not here:
        here += problems(source, course, lab)
    name = f"solutions/{lab.id}/hints.yaml"
    try:
        hints_file = hints.load_yaml(root / name, name)
        here += hint_problems(name, hints_file, lab)
    except CourseFileError as error:
        here.append(str(error))
    found += here
    if here:
        return {}
    starters = {c.exercise: starter(c.source) for c in source.of_kind("exercise")}
    exercises = {e.id: LabExercise(starters[e.id], hints_file.exercises[e.name]) for e in lab.exercises}
    facts = LabFile(lab=lab.id, setup=notebook.setup_source(source), exercises=exercises)
    text = msgspec.json.format(msgspec.json.encode(facts, order="deterministic"), indent=1) + b"\n"
    return {f"labs/{lab.id}/{lab.id}.ipynb": notebook.student(source, lab), f"labs/{lab.id}/lab.json": text}


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


def write(root: Path, files: dict[str, bytes]) -> list[str]:
    """Write what differs, each file atomically; the names written."""
    changed = [name for name, content in sorted(files.items()) if _differs(root / name, content)]
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
    course = course_file.load(root)
    lab = None if lab_id == "start" else course.lab(lab_id)
    found: list[str] = []
    source = _read(root, lab_id, found)
    found += found or problems(source, course, lab)
    if found:
        raise SolutionMarkerError(found)
    return notebook.solution(source, lab)
