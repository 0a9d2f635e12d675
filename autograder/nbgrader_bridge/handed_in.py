"""Whose a file is by its place and name, and which notebook of a student counts. Nothing is opened here.

Understood are, also mixed: STUDENT.ipynb, STUDENT/*.ipynb and STUDENT/ASSIGNMENT/*.ipynb (nbgrader); Moodle's
`NAME_NUMBER_assignsubmission_file_/lab2.ipynb`, also without folders; Canvas's `name_NUMBER_NUMBER_lab2.ipynb`, also
`name_LATE_...`. Moodle's number is another one in each assignment, so the name alone is the student, unless two people
of one hand-in have it. Canvas's first number is the user's and stays; the second is the file's.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.nbgrader_bridge.terminal import name as shown

STAMPS = ("timestamp.txt", "submission_secret.txt")  # nbgrader's, beside a notebook
_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_[a-z]+(?:_(?P<file>.*))?", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>[^_]+)(?:_LATE)?_(?P<number>\d+)_\d+_(?P<file>.+)", re.DOTALL)
_STUDENT_FILE = re.compile(r"(?P<name>.+?)\.ipynb(\.\w+)?", re.DOTALL | re.IGNORECASE)
_LITTER = re.compile(r"\..*|__MACOSX|__pycache__", re.DOTALL)
_MOST_NAMED = 5


@dataclass(frozen=True)
class File:
    """Something that was handed in. `parts`: its place below the folder or archive; `refused`: why it is not read."""

    parts: tuple[str, ...]
    source: Path | zipfile.ZipInfo
    refused: str = ""
    is_folder: bool = False

    @property
    def is_notebook(self) -> bool:
        """Whether the name says so, in capitals too."""
        return not self.is_folder and is_notebook(self.parts[-1])

    @property
    def place(self) -> str:
        """The place as a person reads it."""
        return shown("/".join(self.parts))


@dataclass(frozen=True)
class Choice:
    """The notebook of one student; None when there is nothing to grade, and `problem` says why."""

    student: str
    chosen: File | None
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Owned:
    """A file with its student and its own name, without what a platform or the student's folder put around it."""

    file: File
    student: str
    number: str
    own: tuple[str, ...]


def is_notebook(name: str) -> bool:
    """Whether a file's name ends with .ipynb, in whatever letters."""
    return name.lower().endswith(".ipynb")


def is_litter(parts: Iterable[str]) -> bool:
    """Whether something is hidden, or what systems leave behind."""
    return any(_LITTER.fullmatch(part) and part != ".." for part in parts)


def is_moodle_folder(name: str) -> bool:
    """Whether Moodle made a folder of this name for one student."""
    return bool(_MOODLE.fullmatch(name))


def choose(files: list[File], assignment: str, labs: set[str]) -> tuple[list[Choice], list[str]]:
    """What counts of each student, by name; and the places of what is nobody's.

    Args:
        files: without litter.
        labs: ids of all labs: a folder STUDENT/OTHER_LAB is another hand-in.
    """
    found: list[_Owned] = []
    nobodys: list[str] = []
    for file in sorted(files, key=lambda file: file.parts):
        owned = _owner(file)
        if owned:
            found.append(owned)
        elif not file.is_folder:
            nobodys.append(file.place)
    numbers: dict[str, set[str]] = {}
    for owned in found:
        numbers.setdefault(owned.student, set()).update({owned.number} - {""})
    by_student: dict[str, list[_Owned]] = {}
    for owned in found:
        several = owned.number and len(numbers[owned.student]) > 1
        student = f"{owned.student}_{owned.number}" if several else owned.student
        by_student.setdefault(student, []).append(owned)
    choices = [_choice(student, by_student[student], assignment, labs) for student in sorted(by_student)]
    namesakes = {f"{name}_{number}" for name, all_of in numbers.items() if len(all_of) > 1 for number in all_of}
    said = "several people have this name: the number, which Moodle changes with each assignment, tells them apart"
    return [replace(c, notes=(*c.notes, said)) if c.student in namesakes else c for c in choices], nobodys


def _owner(file: File) -> _Owned | None:
    """None for what is nobody's."""
    first, *rest = (unicodedata.normalize("NFC", part) for part in file.parts)
    if first.startswith("_"):
        return None
    below = bool(rest) or file.is_folder
    if moodle := _MOODLE.fullmatch(first):
        return _Owned(file, moodle["name"].strip(), moodle["number"], tuple(rest) or (moodle["file"] or first,))
    if below:
        return _Owned(file, first.strip(), "", tuple(rest))
    if canvas := _CANVAS.fullmatch(first):
        return _Owned(file, f"{canvas['name'].strip()}_{canvas['number']}", "", (canvas["file"],))
    if named := _STUDENT_FILE.fullmatch(first):
        return _Owned(file, named["name"].strip(), "", (first,))
    return None


def _choice(student: str, files: list[_Owned], assignment: str, labs: set[str]) -> Choice:
    others = labs - {assignment}
    inside = [each.own[0] if len(each.own) > 1 else "" for each in files]
    here = [each for each, place in zip(files, inside, strict=True) if place == assignment]
    at_large = [each for each, place in zip(files, inside, strict=True) if place not in {assignment, *others}]
    counted = [each for each in here if each.file.is_notebook] or [*here, *at_large]
    notebooks = _without_doubles(counted)
    usable = [each for each in notebooks if not each.file.refused]
    refused = tuple(f"{_place(each)} {each.file.refused}." for each in notebooks if each.file.refused)
    named = sorted((each for each in usable if _is_called(each, assignment)), key=lambda e: _order(e, assignment))
    if not named and len(usable) != 1:
        return Choice(
            student, None, " ".join(refused) if refused and not usable else _why_none(usable, counted, assignment)
        )
    chosen = named[0] if named else usable[0]
    notes = []
    if left := [e for e in _without_doubles([*counted, *at_large]) if e is not chosen and not e.file.refused]:
        notes.append(f"several notebooks were handed in: {_place(chosen)} was graded, not {_places(left)}")
    if sum(each.file.parts == chosen.file.parts for each in files) > 1:
        notes.append(f"{_place(chosen)} is there more than once: the last one was graded")
    if student in labs:
        notes.append(f"{_place(chosen)}: {student} is the name of a lab, not of a student; call the file STUDENT.ipynb")
    return Choice(student, chosen.file, notes=(*notes, *refused))


def _is_called(each: _Owned, assignment: str) -> bool:
    return each.own[-1].lower() == f"{assignment}.ipynb".lower()


def _order(each: _Owned, assignment: str) -> tuple[bool, int, tuple[str, ...]]:
    return each.own[-1] != f"{assignment}.ipynb", len(each.own), each.own


def _without_doubles(files: Iterable[_Owned]) -> list[_Owned]:
    """The notebooks; of entries with the very same name the last one, as programs that unpack archives do it."""
    return list({each.file.parts: each for each in files if each.file.is_notebook}.values())


def _why_none(usable: list[_Owned], counted: list[_Owned], assignment: str) -> str:
    if usable:
        return f"None of the notebooks handed in is called {assignment}.ipynb: {_places(usable)}."
    other = [each for each in counted if not each.file.is_folder and each.own[-1] not in STAMPS]
    return f"No notebook was handed in, but {_places(other)}." if other else "No notebook was handed in."


def _place(each: _Owned) -> str:
    return shown("/".join(each.own))


def _places(files: list[_Owned]) -> str:
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    why = [f" ({each.file.refused})" if each.file.refused else "" for each in files[:_MOST_NAMED]]
    return ", ".join(_place(each) + reason for each, reason in zip(files, why, strict=False)) + more
