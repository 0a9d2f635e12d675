"""Cells to notebooks: deterministic ids, nbgrader's metadata, locked check cells, no outputs.

nbgrader metadata follows its schema version 3: exercise cells are solution cells, check cells are locked grade cells.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from autograder.build.source import Cell, SourceFile, solved, starter
from autograder.course import Lab

_LOCKED = {"deletable": False, "editable": False}


def student(source: SourceFile, lab: Lab | None) -> bytes:
    """The notebook that students open: regions replaced by their stubs."""
    return _notebook(source, lab, solution=False)


def solution(source: SourceFile, lab: Lab | None) -> bytes:
    """The same notebook with the reference in the exercise cells."""
    return _notebook(source, lab, solution=True)


def setup_source(source: SourceFile) -> str:
    """The given code that a check runs before the exercise cell."""
    return "\n\n".join(cell.source for cell in source.of_kind("setup"))


def _notebook(source: SourceFile, lab: Lab | None, solution: bool) -> bytes:
    import nbformat

    seen: dict[str, int] = {}
    points = {e.id: e.points for e in lab.exercises} if lab else {}
    notebook = {
        "cells": [_cell(cell, points, seen, solution) for cell in source.cells],
        "metadata": {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    nbformat.validate(nbformat.from_dict(notebook))
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _cell(cell: Cell, points: dict[str, float], seen: dict[str, int], solution: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(cell.tags)} if cell.tags else {}
    text, name = cell.source, cell.exercise.partition("/")[2]
    cell_id = _content_id(cell, seen)
    if cell.kind == "exercise":
        text, cell_id = (solved if solution else starter)(cell.source), name[:64]
        metadata["nbgrader"] = _nbgrader(name, grade=False)
    elif cell.kind == "check":
        cell_id = f"check-{name}"[:64]
        metadata |= _LOCKED | {"nbgrader": _nbgrader(f"check-{name}", grade=True, points=points[cell.exercise])}
    elif cell.kind == "setup":
        metadata |= _LOCKED
    node: dict[str, Any] = {"cell_type": "markdown", "id": cell_id, "metadata": metadata}
    node["source"] = text.splitlines(keepends=True)
    if cell.kind != "markdown":
        node |= {"cell_type": "code", "execution_count": None, "outputs": []}
    return node


def _nbgrader(grade_id: str, *, grade: bool, points: float | None = None) -> dict[str, Any]:
    metadata = {"grade": grade, "grade_id": grade_id, "locked": grade, "schema_version": 3, "solution": not grade}
    whole = int(points) if points is not None and points == int(points) else points
    return metadata | {"task": False} | ({} if points is None else {"points": whole})


def _content_id(cell: Cell, seen: dict[str, int]) -> str:
    """An id from the cell's own text, so that a new cell elsewhere changes no other id."""
    digest = hashlib.sha256(f"{cell.kind}\n{cell.source}".encode()).hexdigest()[:12]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
