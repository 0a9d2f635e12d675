"""Finding exercise cells in a notebook file that a student made: by grade_id, by the ``# exercise:`` line,
or, where neither is left, by the function that the exercise asks for.

The file is untrusted JSON. Nothing in it is run here; outputs, markdown and metadata are never looked into beyond the
few strings needed, and what is odd is said in ``notes`` instead of failing.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from autograder.checks import names
from autograder.course import Exercise, Lab
from autograder.errors import NotebookFileError

MAX_BYTES = 200_000_000
_MAX_OBJECTS = 1_000_000  # in one file; each costs memory, and no honest notebook comes near
_MAX_ODD_BYTES = 20_000_000  # of a notebook that is not as nbformat wants it, and is read whole
MAX_CELL_CHARACTERS = 200_000
_BOM = b"\xef\xbb\xbf"  # some editors on Windows begin a file with it
METADATA_LOST = "the cell's metadata is lost; it was found by its '# exercise:' line"
_LINE = re.compile(r"#\s*exercise:\s*(\S+)\s*")


class Extracted(NamedTuple):
    """Exercise id -> cell source (only those found), and what was odd about the file.

    ``elsewhere``: exercise id -> source of an unmarked cell that defines the same function as the marked one.
    """

    cells: dict[str, str]
    notes: list[str]
    elsewhere: Mapping[str, str] = MappingProxyType({})


def exercise_line(source: str) -> str | None:
    """The exercise id on the first line of a cell that is not blank, or None."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    found = _LINE.fullmatch(first.strip())
    return found[1] if found else None


def read(path_or_bytes: Path | bytes) -> bytes:
    """The content of a notebook; NotebookFileError if it is missing, unreadable or far too large."""
    if isinstance(path_or_bytes, bytes):
        data = path_or_bytes
    else:
        try:
            data = path_or_bytes.read_bytes()
        except OSError as error:
            raise NotebookFileError(f"{path_or_bytes.absolute()} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise NotebookFileError(f"the notebook has {len(data) // 10**6} MB; clear its outputs and save it again")
    return data


def exercise_cells(data: bytes, lab: Lab) -> Extracted:
    """Find every exercise of ``lab`` in the notebook ``data``."""
    sources = _code_cells(data)
    notes: list[str] = []
    cells: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for exercise in lab.exercises:
        chosen, said = _choose(lab, exercise, sources)
        notes += [f"{exercise.id}: {text}" for text in said]
        if chosen is not None and len(chosen) > MAX_CELL_CHARACTERS:
            notes.append(f"{exercise.id}: the cell has {len(chosen)} characters and was not read")
        elif chosen is not None:
            cells[exercise.id] = chosen
            for text in _others(exercise, chosen, sources):
                elsewhere[exercise.id] = text
    return Extracted(cells, notes, elsewhere)


def check_is_of(data: bytes, lab: Lab) -> None:
    """Raises NotebookFileError for a notebook without an exercise cell of `lab`; it names the lab that it is of."""
    sources = _code_cells(data)
    others = [line.split("/")[0] for _, text in sources if (line := exercise_line(text))]
    if lab.id in others or any(_choose(lab, exercise, sources)[0] is not None for exercise in lab.exercises):
        return
    if others:
        raise NotebookFileError(f"the file is a notebook of {max(set(others), key=others.count)}, not of {lab.id}")
    raise NotebookFileError(f"the notebook has no exercise cell of {lab.id}")


def _others(exercise: Exercise, chosen: str, sources: list[tuple[str, str]]) -> list[str]:
    """Unmarked cells that define the exercise's function."""
    unmarked = [text for grade_id, text in sources if not grade_id and exercise_line(text) is None and text != chosen]
    return [text for text in unmarked if names.defines(text, exercise.defines)]


def needs_look(note: str) -> bool:
    """Whether a person should look at what a note says. Other editors drop metadata; the line is as good."""
    return not note.endswith(METADATA_LOST)


def _choose(lab: Lab, exercise: Exercise, sources: list[tuple[str, str]]) -> tuple[str | None, list[str]]:
    """The cell that counts, and what is odd: both marks, then the metadata, then the line, then the function. Metadata
    on a cell whose line names another exercise was swapped, and counts for nothing.
    """
    others = {*(e.id for e in lab.exercises), *(f"{lab.id}/{name}" for name in lab.planned)} - {exercise.id}
    by_id = [i for i, (grade_id, _) in enumerate(sources) if grade_id == exercise.name]
    by_id = [i for i in by_id if exercise_line(sources[i][1]) not in others]
    by_line = [i for i, (_, text) in enumerate(sources) if exercise_line(text) == exercise.id]
    marked = [i for i in by_id if i in by_line] or by_id or by_line
    if not marked:
        return _unmarked(exercise, [text for _, text in sources])
    chosen = marked[-1]
    notes = [] if by_id else [METADATA_LOST]
    copies = {chosen, *by_line, *(i for i in by_id if names.defines(sources[i][1], exercise.defines))}
    if len(copies) > 1:
        which = f"number {sorted(copies).index(chosen) + 1} (it has the metadata of the released cell)"
        notes.append(f"{len(copies)} copies; {'the last one' if chosen == max(copies) else which} was graded")
    return sources[chosen][1], notes


def _unmarked(exercise: Exercise, texts: list[str]) -> tuple[str | None, list[str]]:
    """The one cell that defines the exercise's function, where no cell has metadata or line."""
    found = [text for text in texts if exercise_line(text) is None and names.defines(text, exercise.defines)]
    function = " or ".join(exercise.defines)
    lost = f"no cell has the line `# exercise: {exercise.id}`"
    if not found:
        return None, [f"no exercise cell was found: {lost} and none defines {function}"]
    if len(found) > 1:
        return None, [f"none was graded: {lost} and {len(found)} cells define {function}"]
    return found[0], [f"{lost}; the one that defines {function} was graded"]


class _Cell(msgspec.Struct):
    """A cell as nbformat wants it, without its outputs: those are never built in memory."""

    cell_type: str
    source: str | list[str] = ""
    metadata: dict[str, Any] = {}
    id: str = ""


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def without_outputs(data: bytes) -> Any:
    """The notebook `data` as plain data: of well-formed cells type, source, metadata and id; of odd ones everything.
    Halves of characters, which JSON may hold and no text file can, are replaced.

    Raises:
        NotebookFileError: it is no JSON, or too large for an odd one.
    """
    if data.count(b"{") > _MAX_OBJECTS:
        raise NotebookFileError("the file is not a notebook that anybody wrote: it has over a million parts")
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        return _whole(msgspec.to_builtins(msgspec.json.decode(data.removeprefix(_BOM), type=_Notebook)))
    if len(data) > _MAX_ODD_BYTES:
        raise NotebookFileError("the file is not a notebook: it is no valid JSON, or not in the form of one")
    try:
        return _whole(json.loads(data))
    except (ValueError, RecursionError):
        raise NotebookFileError("the file is not a notebook: it is no valid JSON") from None


def _whole(value: Any) -> Any:
    """The same with whole characters only."""
    if isinstance(value, dict):
        return {_whole(key): _whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _code_cells(data: bytes) -> list[tuple[str, str]]:
    """(grade_id or "", source) of every code cell."""
    notebook = without_outputs(data)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise NotebookFileError("the file is not a notebook of format 4: it has no cells")
    return [_code(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]


def _code(cell: dict[str, Any]) -> tuple[str, str]:
    source, metadata = cell.get("source", ""), cell.get("metadata")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    info = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = info.get("grade_id") if isinstance(info, dict) and info.get("solution") is True else ""
    text = source.replace("\r\n", "\n").replace("\r", "\n") if isinstance(source, str) else ""
    return (grade_id if isinstance(grade_id, str) else ""), text
