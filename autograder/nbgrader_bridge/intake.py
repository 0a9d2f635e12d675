"""Submissions as they come, brought into nbgrader's submitted/ folder.

Three layouts are read, also mixed: STUDENT/ASSIGNMENT/*.ipynb (nbgrader), STUDENT/*.ipynb, and STUDENT.ipynb. Only the
notebook and nbgrader's timestamp are taken: other files of a submission never reach the course folder. Links are not
followed, since they could name any file of the instructor.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import course
from autograder.grading.extract import MAX_BYTES
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder, check_student_name

_HEAD_BYTES = 2_000_000
_EXERCISE = re.compile(rb"# exercise: ([\w-]+)/")
_STAMPS = ("timestamp.txt", "submission_secret.txt")


@dataclass(frozen=True)
class Submission:
    """One student's hand-in. `notebook` is None when there is nothing to grade; then `problem` says why."""

    student: str
    notebook: Path | None
    problem: str = ""


@contextlib.contextmanager
def opened(submissions: Path, assignment: str) -> Iterator[list[Submission]]:
    """The submissions of a folder or of a zip archive, which is unpacked for as long as the block lasts.

    Raises:
        BridgeError: as `find`, or the archive cannot be read.
    """
    if not submissions.is_file():
        yield find(submissions, assignment)
        return
    from autograder.nbgrader_bridge import archive

    with tempfile.TemporaryDirectory(prefix="lockstep-") as place:
        refused = archive.unpack(submissions, Path(place), assignment)
        reasons: dict[str, list[str]] = {}
        for each in refused:
            reasons.setdefault(each.student, []).append(each.reason)
        found = {submission.student: submission for submission in _read(Path(place), assignment)}
        for student, said in reasons.items():
            had = found.get(student, Submission(student, None))
            found[student] = replace(had, problem=" ".join(filter(None, [had.problem, *said])))
        if not found:
            raise BridgeError(f"{submissions} holds no notebook.")
        yield [found[student] for student in sorted(found)]


def check_any(submissions: Path | None, folder: CourseFolder) -> None:
    """Raises BridgeError when there is nothing to grade, before anything is asked or made."""
    if submissions is None:
        if not any(folder.root.glob("submitted/*/*/*.ipynb")):
            raise BridgeError(
                f"There is nothing to grade: {folder.root / 'submitted'} holds no submission. Name a folder of "
                "notebooks or a zip archive, or another course folder with --course."
            )
    elif not submissions.exists():
        raise BridgeError(f"{submissions} does not exist: name a folder of notebooks or a zip archive.")
    elif submissions.is_dir() and not any(entry.name[0] not in "._" for entry in submissions.iterdir()):
        raise BridgeError(f"{submissions} is empty: name a folder of notebooks or a zip archive.")


def lab_of(assignment: str | None, folder: CourseFolder, submissions: Path | None = None) -> str:
    """The lab that is named, or the only one that there is, that the submissions name, or that the folder knows.

    Raises:
        BridgeError: there is no such lab, or several could be meant.
    """
    labs = [lab.id for lab in course.load().labs() if lab.exercises]
    named = labs_named(submissions) if submissions and assignment is None else set()
    if assignment is None:
        for known in (labs, [x for x in labs if x in named], [x for x in labs if folder.released(x).is_dir()]):
            if len(known) == 1:
                return known[0]
    if assignment not in labs:
        several = f" The notebooks name {' and '.join(x for x in labs if x in named)}." if named & {*labs} else ""
        wrong = f"There is no lab {assignment} with exercises." if assignment else f"Which lab is graded?{several}"
        raise BridgeError(f"{wrong} Name one with --assignment: {', '.join(labs)}.")
    return assignment


def labs_named(submissions: Path) -> set[str]:
    """What may be a lab's id: words of the names of notebooks, and what the first lines of exercise cells say."""
    found: set[str] = set()
    for name, text in _heads(submissions):
        found |= {*re.split(r"[/_]", name.removesuffix(".ipynb")), *(m.decode() for m in _EXERCISE.findall(text))}
    return found


def _heads(submissions: Path) -> Iterator[tuple[str, bytes]]:
    """Name and beginning of every notebook in a folder or archive, as far as it can be read."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        if submissions.is_dir():
            for path in submissions.glob("**/*.ipynb"):
                if path.is_file() and not path.is_symlink():
                    with path.open("rb") as file:
                        yield path.name, file.read(_HEAD_BYTES)
            return
        with zipfile.ZipFile(submissions) as archive:
            for name in archive.namelist():
                if name.endswith(".ipynb"):
                    with archive.open(name) as member:
                        yield name, member.read(_HEAD_BYTES)


def find(submissions: Path, assignment: str) -> list[Submission]:
    """All submissions under a folder, by student name.

    Raises:
        BridgeError: the folder does not exist, holds no submission, or holds two of one student.
    """
    if not submissions.is_dir():
        raise BridgeError(f"{submissions} is not a folder. Give the folder or the zip archive of submissions.")
    found = list(_read(submissions, assignment))
    names = [submission.student for submission in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BridgeError(f"{submissions} holds two submissions of {', '.join(twice)}. Keep one of each.")
    if not found:
        raise BridgeError(
            f"{submissions} holds no submission. Expected STUDENT.ipynb, STUDENT/{assignment}.ipynb or "
            f"STUDENT/{assignment}/{assignment}.ipynb."
        )
    return found


def _read(submissions: Path, assignment: str) -> Iterator[Submission]:
    for entry in sorted(submissions.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            inner = entry / assignment
            yield _choose(entry.name, inner if inner.is_dir() else entry, assignment)
        elif entry.suffix == ".ipynb":
            yield _checked(entry.stem, entry)


def _choose(student: str, place: Path, assignment: str) -> Submission:
    candidates = sorted(place.glob("*.ipynb"))
    named = [path for path in candidates if path.stem == assignment]
    if named:
        return _checked(student, named[0])
    if len(candidates) == 1:
        return _checked(student, candidates[0])
    if candidates:
        names = ", ".join(path.name for path in candidates)
        return Submission(student, None, f"None of the notebooks handed in is called {assignment}.ipynb: {names}.")
    return Submission(student, None, "No notebook was handed in.")


def _checked(student: str, path: Path) -> Submission:
    if path.is_symlink() or not path.is_file():
        return Submission(student, None, f"{path.name} is not a file of its own.")
    return Submission(student, path)


def bring_in(folder: CourseFolder, submission: Submission, assignment: str) -> None:
    """Copies one submission to submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb, unless it is there already.

    A submission without a notebook becomes an empty file, which is graded with 0 points.

    Raises:
        BridgeError: nbgrader cannot carry the student's name, or the file cannot be copied.
    """
    check_student_name(submission.student)
    place = folder.submitted(submission.student, assignment)
    try:
        place.mkdir(parents=True, exist_ok=True)
        data = _read_some(submission.notebook) if submission.notebook else b""
        _write(place / f"{assignment}.ipynb", data)
        for stamp in (submission.notebook.parent / name for name in _STAMPS) if submission.notebook else ():
            if stamp.is_file() and not stamp.is_symlink():
                _write(place / stamp.name, stamp.read_bytes())
    except OSError as error:
        raise BridgeError(f"{submission.student}: the submission cannot be copied: {error.strerror}.") from error


def _read_some(path: Path) -> bytes:
    """The file, or enough of it to see that it is far too large."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _write(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
