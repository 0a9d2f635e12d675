"""Exercise cells are found in notebooks that students bent, and nothing in the file is trusted."""

from __future__ import annotations

import gc
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autograder import course
from autograder.checks import names
from autograder.errors import NotebookFileError
from autograder.grading import extract
from tests.autograder.small import EXERCISE, cell

GOOD = cell("pass")


def notebook(*cells: tuple[str, str | None]) -> bytes:
    """A notebook of code cells given as (source, grade_id)."""
    return json.dumps({"cells": [code(source, grade_id) for source, grade_id in cells], "nbformat": 4}).encode()


def code(source: str, grade_id: str | None) -> dict[str, Any]:
    metadata = {"nbgrader": {"grade_id": grade_id, "solution": True}} if grade_id else {}
    return {"cell_type": "code", "source": source.splitlines(keepends=True), "metadata": metadata, "outputs": []}


FOUND = {
    "by grade_id": (notebook(("x = 1", None), (GOOD, "ring-all-reduce")), ""),
    "line lost": (notebook((GOOD.split("\n", 1)[1], "ring-all-reduce")), ""),
    "metadata lost": (notebook((GOOD, None)), "metadata is lost"),
    "copied": (notebook((GOOD, "ring-all-reduce"), (GOOD, "ring-all-reduce")), "2 copies; the last one was graded"),
    "two versions": (
        notebook((cell("x"), "ring-all-reduce"), (GOOD, "ring-all-reduce")),
        "2 copies; the last one was graded",
    ),
    "copied by line": (notebook((cell("x"), None), (GOOD, None)), "2 copies; the last one was graded"),
    "copy without metadata": (
        notebook((GOOD, "ring-all-reduce"), (cell("x"), None)),
        "2 copies; number 1 (it has the metadata of the released cell) was graded",
    ),
    "nothing but the function": (
        notebook(("x = 1", None), (GOOD.split("\n", 1)[1], None)),
        f"no cell has the line `# exercise: {EXERCISE}`; the one that defines ring_all_reduce was graded",
    ),
    "metadata of two cells swapped": (
        notebook(("# exercise: lab2/tree", "ring-all-reduce"), (GOOD, "tree")),
        "metadata is lost",
    ),
    "half a character": (notebook((GOOD, "ring-all-reduce"), ("# half of a smile: \ud83d", None)), ""),
    "id on another cell": (notebook(("x = 1", "ring-all-reduce"), (GOOD, "ring-all-reduce")), ""),
}


@pytest.mark.parametrize("case", FOUND, ids=list(FOUND))
def test_the_cell_is_found_and_what_is_odd_is_noted(case: str, built: Path) -> None:
    data, note = FOUND[case]
    found = extract.exercise_cells(data, course.load(built).lab("lab2"))
    assert found.cells[EXERCISE].strip() in (GOOD.strip(), GOOD.split("\n", 1)[1].strip())
    assert note in "".join(found.notes)
    assert [n for n in found.notes if extract.needs_look(n)] == (
        [f"{EXERCISE}: {note}"] if note and note != "metadata is lost" else []
    )


@pytest.mark.parametrize(
    "data",
    [
        notebook(),
        notebook(("# exercise: lab2/other", None)),
        notebook(("", "ring-all-reduce".upper())),
        b'{"cells": [1, null, {"cell_type": "code"}, {"cell_type": "code", "source": 5, "metadata": 7}]}',
        json.dumps({"cells": [{"cell_type": "markdown", "source": GOOD}]}).encode(),
    ],
)
def test_a_missing_cell_is_noted(data: bytes, built: Path) -> None:
    found = extract.exercise_cells(data, course.load(built).lab("lab2"))
    assert found.cells == {}
    line = f"no cell has the line `# exercise: {EXERCISE}`"
    assert found.notes == [f"{EXERCISE}: no exercise cell was found: {line} and none defines ring_all_reduce"]


def test_of_several_cells_without_any_mark_none_is_graded(built: Path) -> None:
    function = GOOD.split("\n", 1)[1]
    found = extract.exercise_cells(notebook((function, None), (function, None)), course.load(built).lab("lab2"))
    assert found.cells == {}
    [note] = found.notes
    assert note.endswith("2 cells define ring_all_reduce")
    assert extract.needs_look(note)


def test_half_a_character_becomes_a_whole_one(built: Path) -> None:
    found = extract.exercise_cells(
        notebook((GOOD + "# \ud83d \ud83d\ude00", "ring-all-reduce")), course.load(built).lab("lab2")
    )
    assert found.cells[EXERCISE] == GOOD + "# \ufffd \U0001f600"


def test_a_huge_cell_is_not_read(built: Path) -> None:
    data = notebook((GOOD + "#" * 300_000, "ring-all-reduce"))
    found = extract.exercise_cells(data, course.load(built).lab("lab2"))
    assert found.cells == {}
    assert "was not read" in found.notes[0]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{}", b"[" * 100_000, b'{"cells": 3}'])
def test_what_is_no_notebook_is_said(data: bytes, built: Path) -> None:
    with pytest.raises(NotebookFileError, match="not a notebook"):
        extract.exercise_cells(data, course.load(built).lab("lab2"))


def test_a_missing_file_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotebookFileError, match=r"gone\.ipynb cannot be read: No such file"):
        extract.read(tmp_path / "gone.ipynb")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# exercise: lab2/x\npass", "lab2/x"),
        ("\n\n#exercise:lab2/x  \npass", "lab2/x"),
        ("x = 1\n# exercise: lab2/x", None),
        ("# exercise: lab2/x and more", None),
        ("", None),
    ],
)
def test_the_exercise_line_is_the_first(source: str, expected: str | None) -> None:
    assert extract.exercise_line(source) == expected


class _Rubbish:
    """Collected in a cycle, it runs Python, so that the collector lets other threads in."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(100))


def test_two_threads_may_read_cells_at_the_same_time() -> None:
    """With `ast.parse` itself CPython 3.11 raises a SystemError here."""
    text = "def f(a):\n    return [a + 1, (a, {'b': a})]\n" * 40

    def read() -> None:
        for _ in range(8):
            for _ in range(30):
                _Rubbish()
            names.parse(text)

    before, pause = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(read) for _ in range(3)]:
                done.result()
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(pause)
