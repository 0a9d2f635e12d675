"""Submissions as they come, brought into nbgrader's submitted/ folder.

A folder or a zip archive is read; `handed_in` says whose a file is. Only the notebook and nbgrader's timestamp are
taken: other files of a submission never reach the course folder. Links are not followed, since they could name any file
of the instructor.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder import course
from autograder.grading.extract import MAX_BYTES
from autograder.nbgrader_bridge import archive, handed_in
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder, check_student_name
from autograder.nbgrader_bridge.handed_in import Choice, File

_HEAD_BYTES = 2_000_000
_EXERCISE = re.compile(rb"# exercise: ([\w-]+)/")
_MOST_NAMED = 20
_DEEPEST = 20  # folders in folders; a tree of a thousand would stop the whole class


@dataclass(frozen=True)
class Submission:
    """One student's hand-in. `notebook` is None when there is nothing to grade; then `problem` says why.

    `notes`: what a person should know about the choice of the notebook.
    """

    student: str
    notebook: Path | None
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HandIn:
    """What was handed in, by student, and in words what could not be told to be anybody's."""

    submissions: list[Submission]
    not_taken: tuple[str, ...] = ()

    def only(self, student: str) -> HandIn:
        """That of one student; BridgeError if there is none."""
        found = [submission for submission in self.submissions if submission.student == student]
        if not found:
            raise BridgeError(f"There is no submission of {student}.")
        return HandIn(found)


@contextlib.contextmanager
def opened(submissions: Path, assignment: str) -> Iterator[HandIn]:
    """The submissions of a folder or of a zip archive, which is unpacked for as long as the block lasts.

    Raises:
        BridgeError: as `find`, or the archive cannot be read.
    """
    if not submissions.is_file():
        yield find(submissions, assignment)
        return
    with archive.opened(submissions) as packed, tempfile.TemporaryDirectory(prefix="lockstep-") as place:
        files = archive.files(packed, assignment)
        choices, nobodys = _sorted_out(submissions, files, assignment)
        unpacked = [_unpacked(packed, choice, Path(place) / f"{n}.ipynb") for n, choice in enumerate(choices)]
        yield HandIn(unpacked, _not_taken(nobodys))


def _unpacked(packed: zipfile.ZipFile, choice: Choice, to: Path) -> Submission:
    if choice.chosen is None or isinstance(choice.chosen.source, Path):
        return Submission(choice.student, None, choice.problem, choice.notes)
    damage = archive.unpack(packed, choice.chosen.source, to)
    if damage:
        return Submission(choice.student, None, f"{choice.chosen.place} {damage}", choice.notes)
    return Submission(choice.student, to, "", choice.notes)


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
    elif submissions.is_file():
        with archive.opened(submissions) as packed:
            if not any(handed_in.is_notebook(name) for name in packed.namelist()):
                raise BridgeError(f"{submissions} holds no notebook.")


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
        found |= {*re.split(r"[/_.]", name), *(m.decode() for m in _EXERCISE.findall(text))}
    return found


def _heads(submissions: Path) -> Iterator[tuple[str, bytes]]:
    """Name and beginning of every notebook in a folder or archive, as far as it can be read."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        if submissions.is_dir():
            for path in submissions.glob("**/*"):
                if handed_in.is_notebook(path.name) and path.is_file() and not path.is_symlink():
                    with path.open("rb") as file:
                        yield path.name, file.read(_HEAD_BYTES)
            return
        with zipfile.ZipFile(submissions) as packed:
            for name in packed.namelist():
                if handed_in.is_notebook(name):
                    with packed.open(name) as member:
                        yield name, member.read(_HEAD_BYTES)


def find(submissions: Path, assignment: str) -> HandIn:
    """All submissions under a folder, by student name.

    Raises:
        BridgeError: the folder does not exist, or holds no notebook.
    """
    if not submissions.is_dir():
        raise BridgeError(f"{submissions} is not a folder. Give the folder or the zip archive of submissions.")
    choices, nobodys = _sorted_out(submissions, list(_files(submissions)), assignment)
    return HandIn([_from_folder(choice) for choice in choices], _not_taken(nobodys))


def _sorted_out(submissions: Path, files: list[File], assignment: str) -> tuple[list[Choice], list[str]]:
    choices, nobodys = handed_in.choose(files, assignment, {lab.id for lab in course.load().labs()})
    if not choices or not any(file.is_notebook for file in files):
        raise BridgeError(
            f"{submissions} holds no notebook. Expected STUDENT.ipynb, STUDENT/{assignment}.ipynb or "
            f"STUDENT/{assignment}/{assignment}.ipynb."
        )
    return choices, nobodys


def _not_taken(places: list[str]) -> tuple[str, ...]:
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    return (f"not taken: {', '.join(places[:_MOST_NAMED])}{more}",) if places else ()


def _files(folder: Path, above: tuple[str, ...] = ()) -> Iterator[File]:
    """What lies below a folder, without litter. Links are named and not followed, and nothing is read very deep."""
    try:
        paths = [path for path in folder.iterdir() if not handed_in.is_litter([path.name])]
    except OSError as error:
        yield File((*above, "*"), folder, f"cannot be read: {error.strerror}")
        return
    for path in paths:
        parts = (*above, path.name)
        is_link = path.is_symlink()
        if path.is_dir() and not is_link:
            yield File(parts, path, is_folder=True)
            yield from _files(path, parts) if len(parts) < _DEEPEST else ()
        else:
            yield File(parts, path, "is not a file of its own" if is_link or not path.is_file() else "")


def _from_folder(choice: Choice) -> Submission:
    notebook = choice.chosen.source if choice.chosen and isinstance(choice.chosen.source, Path) else None
    return Submission(choice.student, notebook, choice.problem, choice.notes)


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
        for stamp in (submission.notebook.parent / name for name in handed_in.STAMPS) if submission.notebook else ():
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
