"""Cells to notebooks: deterministic ids, nbgrader's metadata, locked check cells, no outputs.

nbgrader metadata follows its schema version 3: exercise cells are solution cells, check cells are locked grade cells.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from autograder import questions
from autograder.build.source import Cell, SourceFile, solved, starter
from autograder.course import Lab
from autograder.questions import Question

_LOCKED = {"deletable": False, "editable": False}


def student(source: SourceFile, lab: Lab | None, asked: dict[str, Question]) -> bytes:
    """The notebook that students open: regions replaced by their stubs."""
    return _notebook(source, lab, asked, solution=False)


def solution(source: SourceFile, lab: Lab | None, asked: dict[str, Question]) -> bytes:
    """The same notebook with the reference in the exercise cells, and the right letters."""
    return _notebook(source, lab, asked, solution=True)


def setup_source(source: SourceFile, owner: str = "") -> str:
    """The given code of the lab, or of the exercise ``owner``: a check runs it before the exercise cell."""
    return "\n\n".join(cell.source for cell in source.of_kind("setup") if cell.owner == owner)


def _notebook(source: SourceFile, lab: Lab | None, asked: dict[str, Question], solution: bool) -> bytes:
    import nbformat

    seen: dict[str, int] = {}
    points = {e.id: e.grade_points for e in lab.exercises} if lab else {}
    notebook: dict[str, Any] = {
        "cells": [
            node
            for cell in source.cells
            for node in (
                _question(lab.id, cell.exercise, asked[cell.exercise], solution)
                if lab and cell.kind == "question"
                else [_cell(cell, points, seen, solution)]
            )
        ],
        "metadata": {
            "lockstep": {"built": ""},
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    nbformat.validate(nbformat.from_dict(notebook))
    notebook["metadata"]["lockstep"]["built"] = _stamp(notebook)
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def was_edited(path: Path) -> bool:
    """Whether a notebook is another than the builder made: its cells do not fit its stamp; without one: it was run."""
    try:
        notebook = json.loads(path.read_bytes())
        if "lockstep" not in notebook["metadata"]:
            return any(cell.get("execution_count") or cell.get("outputs") for cell in notebook["cells"])
        return bool(notebook["metadata"]["lockstep"]["built"] != _stamp(notebook))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return True


def _stamp(notebook: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(notebook["cells"], sort_keys=True).encode()).hexdigest()[:16]


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


def _question(lab_id: str, key: str, question: Question, solution: bool) -> list[dict[str, Any]]:
    """A locked Markdown cell with the options, and the cell into which the student writes a letter."""
    letter = next(letter for letter, option in question.letters().items() if option.right) if solution else ""
    text, call = questions.cell_text(question), f'answer("{lab_id}/{key}", "{letter}")'
    shown: dict[str, Any] = {"cell_type": "markdown", "id": f"question-{key}"[:64], "metadata": dict(_LOCKED)}
    given: dict[str, Any] = {
        "cell_type": "code",
        "id": f"answer-{key}"[:64],
        "metadata": {},
        "execution_count": None,
        "outputs": [],
    }
    return [shown | {"source": text.splitlines(keepends=True)}, given | {"source": [call]}]


def _nbgrader(grade_id: str, *, grade: bool, points: float | None = None) -> dict[str, Any]:
    metadata = {"grade": grade, "grade_id": grade_id, "locked": grade, "schema_version": 3, "solution": not grade}
    whole = int(points) if points is not None and points == int(points) else points
    return metadata | {"task": False} | ({} if points is None else {"points": whole})


def _content_id(cell: Cell, seen: dict[str, int]) -> str:
    """An id from the cell's own text, so that a new cell elsewhere changes no other id."""
    digest = hashlib.sha256(f"{cell.kind}\n{cell.source}".encode()).hexdigest()[:12]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
