"""A zip archive of submissions, as learning platforms make it, unpacked without trusting a word of it.

Of each student the one notebook that counts is taken, by reading at most `MAX_BYTES` of what it unpacks to, whatever
the archive says about its size. Nothing is written under a name from the archive. Names that lead elsewhere, links and
encrypted entries are refused, one by one; an archive with too much in it as a whole. `handed_in` says whose an entry
is; all of them may lie below one common folder.
"""

from __future__ import annotations

import contextlib
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from autograder.grading.extract import MAX_BYTES
from autograder.nbgrader_bridge import handed_in
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.handed_in import File

MAX_ENTRIES = 100_000
MAX_TOTAL_BYTES = 8 << 30
_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, for as long as the block lasts.

    Raises:
        BridgeError: it is no zip archive, or far too large.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise BridgeError(f"{path} cannot be read as a zip archive: {error}.") from error
    with archive:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > MAX_TOTAL_BYTES:
            raise BridgeError(f"{path} holds far too much for a class: unpack it yourself and give the folder.")
        yield archive


def files(archive: zipfile.ZipFile, assignment: str) -> list[File]:
    """What the archive holds, without litter and without the folder that everything lies in."""
    entries = [(PurePosixPath(entry.filename).parts, entry) for entry in archive.infolist()]
    entries = [(parts, entry) for parts, entry in entries if not handed_in.is_litter(parts)]
    common = _common_folders([parts for parts, entry in entries if not entry.is_dir()], f"{assignment}.ipynb")
    return [File(parts[common:], entry, _odd(entry), entry.is_dir()) for parts, entry in entries if parts[common:]]


def _common_folders(places: list[tuple[str, ...]], notebook: str) -> int:
    """1 if everything lies in one folder that is no student's: then it is the archive's own name."""
    if len({p[:1] for p in places}) != 1 or any(len(p) < 2 or handed_in.is_moodle_folder(p[0]) for p in places):
        return 0
    flat = [p[-1].lower() for p in places if len(p) == 2]
    return 0 if notebook.lower() in flat else 1


def _odd(entry: zipfile.ZipInfo) -> str:
    name = entry.filename
    if name.startswith("/") or "\\" in name or ":" in name or ".." in PurePosixPath(name).parts:
        return "leads out of the archive and was not taken"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "is a link and was not taken"
    return "is encrypted and was not taken" if entry.flag_bits & 1 else ""


def unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, to: Path) -> str:
    """Unpack one notebook to the file `to`; why it could not be, or ""."""
    data = bytearray()
    try:
        with archive.open(entry) as file:
            while piece := file.read(_PIECE_BYTES):
                data += piece
                if len(data) > MAX_BYTES:
                    return f"unpacks to more than {MAX_BYTES // 10**6} MB and was not taken"
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        return f"is damaged and was not taken: {error}"
    to.write_bytes(data)
    return ""
