"""Finding exercise cells in a notebook file that a student made: by grade_id, else by the ``# exercise:`` line.

The file is untrusted JSON. Nothing in it is run here; outputs, markdown and metadata are never looked into beyond the
few strings needed, and what is odd is said in ``notes`` instead of failing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from autograder.course import Lab
from autograder.errors import NotebookFileError

MAX_BYTES = 50_000_000
MAX_CELL_CHARACTERS = 200_000
_LINE = re.compile(r"#\s*exercise:\s*(\S+)\s*")


class Extracted(NamedTuple):
    """Exercise id -> cell source (only those found), and what was odd about the file."""

    cells: dict[str, str]
    notes: list[str]


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
            raise NotebookFileError(f"{path_or_bytes.name} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise NotebookFileError(f"the notebook has {len(data) // 10**6} MB; clear its outputs and save it again")
    return data


def exercise_cells(data: bytes, lab: Lab) -> Extracted:
    """Find every exercise of ``lab`` in the notebook ``data``."""
    sources = _code_cells(data)
    notes: list[str] = []
    cells: dict[str, str] = {}
    for exercise in lab.exercises:
        by_id = [text for grade_id, text in sources if grade_id == exercise.name]
        by_line = [text for _, text in sources if exercise_line(text) == exercise.id]
        chosen = _choose(exercise.id, by_id, by_line, notes)
        if chosen is not None and len(chosen) > MAX_CELL_CHARACTERS:
            notes.append(f"{exercise.id}: the cell has {len(chosen)} characters and was not read")
        elif chosen is not None:
            cells[exercise.id] = chosen
    return Extracted(cells, notes)


def _choose(exercise_id: str, by_id: list[str], by_line: list[str], notes: list[str]) -> str | None:
    if not by_id and not by_line:
        notes.append(f"{exercise_id}: no exercise cell was found")
        return None
    if not by_id:
        notes.append(f"{exercise_id}: the cell's metadata is lost; it was found by its '# exercise:' line")
    both = [text for text in by_id if text in by_line]
    candidates = both or by_id or by_line
    if len(candidates) > 1 and len(set(candidates)) > 1:
        notes.append(f"{exercise_id}: {len(candidates)} different exercise cells; the last one counts")
    elif len(candidates) > 1:
        notes.append(f"{exercise_id}: the exercise cell is there {len(candidates)} times")
    return candidates[-1]


def _code_cells(data: bytes) -> list[tuple[str, str]]:
    """(grade_id or "", source) of every code cell."""
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        raise NotebookFileError("the file is not a notebook: it is no valid JSON") from None
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
    return (grade_id if isinstance(grade_id, str) else ""), (source if isinstance(source, str) else "")
