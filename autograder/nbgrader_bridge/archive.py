"""A zip archive of submissions, as learning platforms make it, unpacked without trusting a word of it.

Only notebooks are taken, each by reading at most `MAX_BYTES` of what it unpacks to, whatever the archive says about its
size. Nothing is written under a name from the archive except the student's, which `check_student_name` allows. Names
that lead elsewhere, links and encrypted entries are refused, one by one; an archive with too much in it as a whole.

Names that are understood: the layouts of a folder (see `intake`), below one common folder or none; Moodle's
`NAME_NUMBER_assignsubmission_file_/lab2.ipynb`; Canvas's `name_NUMBER_NUMBER_lab2.ipynb`, also `name_LATE_...`.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograder.grading.extract import MAX_BYTES
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import check_student_name

MAX_ENTRIES = 100_000
MAX_TOTAL_BYTES = 8 << 30
_PIECE_BYTES = 1 << 20
_MOODLE = re.compile(r"(?P<student>.+_\d+)_assignsubmission_\w+")
_CANVAS = re.compile(r"(?P<student>[^_]+)(?:_LATE)?_(?P<number>\d+)_\d+_.*")


@dataclass(frozen=True)
class Refused:
    """An entry that was not taken, and whose it was ("" if nobody's)."""

    student: str
    reason: str


def unpack(path: Path, into: Path, assignment: str) -> list[Refused]:
    """Write the notebooks of the archive to `into`/STUDENT/NAME.ipynb and say what was refused.

    Raises:
        BridgeError: it is no zip archive, or far too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MAX_ENTRIES or sum(e.file_size for e in entries) > MAX_TOTAL_BYTES:
                raise BridgeError(f"{path} holds far too much for a class: unpack it yourself and give the folder.")
            return list(_unpack(archive, entries, into, assignment))
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise BridgeError(f"{path} cannot be read as a zip archive: {error}.") from error


def _unpack(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], into: Path, assignment: str) -> Iterator[Refused]:
    common = _common_folder([entry.filename for entry in entries], f"{assignment}.ipynb")
    for entry in entries:
        parts = PurePosixPath(entry.filename).parts[common:]
        student, name = _whose(parts)
        if any(part.startswith((".", "__MACOSX")) and part != ".." for part in parts):
            continue
        reason = _odd(entry) or _odd_student(student)
        if not reason and name.endswith(".ipynb"):
            reason = _write(archive, entry, into / student / name)
        if reason:
            yield Refused(student, f"{entry.filename!r} {reason}")


def _common_folder(names: list[str], notebook: str) -> int:
    """1 if everything lies in one folder that is no student's: then it is the archive's own name."""
    parts = [PurePosixPath(name).parts for name in names]
    if len({p[:1] for p in parts}) != 1 or any(len(p) < 2 or _MOODLE.fullmatch(p[0]) for p in parts):
        return 0
    flat = [p[-1] for p in parts if len(p) == 2]
    return 0 if notebook in flat else 1


def _whose(parts: tuple[str, ...]) -> tuple[str, str]:
    """Student and file name of an entry."""
    if len(parts) > 1:
        moodle = _MOODLE.fullmatch(parts[0])
        return (moodle["student"] if moodle else parts[0]), parts[-1]
    name = parts[0] if parts else ""
    if canvas := _CANVAS.fullmatch(name):
        return f"{canvas['student']}_{canvas['number']}", name
    return name.removesuffix(".ipynb"), name


def _odd(entry: zipfile.ZipInfo) -> str:
    name = entry.filename
    if name.startswith("/") or "\\" in name or ":" in name or ".." in PurePosixPath(name).parts:
        return "leads out of the archive and was not taken"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "is a link and was not taken"
    return "is encrypted and was not taken" if entry.flag_bits & 1 else ""


def _odd_student(student: str) -> str:
    try:
        check_student_name(student)
    except BridgeError as error:
        return f"was not taken: {error}"
    return ""


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, to: Path) -> str:
    """Unpack one notebook; why it could not be, or ""."""
    data = bytearray()
    try:
        with archive.open(entry) as file:
            while piece := file.read(_PIECE_BYTES):
                data += piece
                if len(data) > MAX_BYTES:
                    return f"unpacks to more than {MAX_BYTES // 10**6} MB and was not taken"
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        return f"is damaged and was not taken: {error}"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(data)
    return ""
