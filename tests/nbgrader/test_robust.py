"""Notebooks as they really come: each is graded as far as possible, has a page that says what happened, stops nobody.

The exercise cell of each is no valid Python at a known line, so that it is plain whether it was found; no ranks run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep
from tests.nbgrader.dangers import dangers
from tests.nbgrader.notebooks import CHECK, EXERCISE, LAB, SCRIPT, Notebook, cell

pytestmark = [pytest.mark.nbgrader, pytest.mark.slow, pytest.mark.timeout(600)]

MINE = f"# exercise: {LAB}/{EXERCISE}\ndef ring_all_reduce(tensor):\n    mine = = 1\n"
FOUND = "mine = = 1"  # stands in the finding about the cell


def _base() -> Notebook:
    notebook = notebooks.released()
    cell(notebook, EXERCISE)["source"] = MINE
    return notebook


def _each(notebook: Notebook, change: Callable[[dict[str, Any]], object]) -> Notebook:
    for each in notebook["cells"]:
        change(each)
    return notebook


def _colab() -> Notebook:
    """Colab: its own metadata and ids, nbgrader's dropped, an older format, sources as lists."""
    notebook = _each(_base(), lambda c: c.update(metadata={"id": "aBcD", "colab": {"base_uri": "https://x"}}))
    for each in notebook["cells"]:
        each.pop("id", None)
        each["source"] = each["source"].splitlines(keepends=True)
    return notebook | {
        "nbformat_minor": 0,
        "metadata": {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}},
    }


def _vs_code() -> Notebook:
    """VS Code: metadata kept, its language added, no kernel display name, ids of its own."""
    notebook = _each(_base(), lambda c: c["metadata"].update(vscode={"languageId": "python"}))
    return notebook | {"metadata": {"language_info": {"name": "python", "version": "3.13.1"}}}


def _without(notebook: Notebook, *names: str) -> Notebook:
    gone = [cell(notebook, name) for name in names]
    notebook["cells"] = [each for each in notebook["cells"] if each not in gone]
    return notebook


def _copied(notebook: Notebook) -> Notebook:
    notebook["cells"] += [deepcopy(cell(notebook, EXERCISE)), deepcopy(cell(notebook, CHECK))]
    return notebook


def _huge_line(notebook: Notebook) -> str:
    cell(notebook, CHECK)["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 100_000_000}]
    return json.dumps(notebook)


def _edited(notebook: Notebook) -> Notebook:
    cell(notebook, CHECK)["source"] = "print('12 of 12')"
    cell(notebook, CHECK)["metadata"]["nbgrader"]["points"] = 99
    return notebook


def _demoted(notebook: Notebook) -> Notebook:
    cell(notebook, CHECK)["metadata"]["nbgrader"].update(solution=True, locked=False)
    return notebook


def _renamed(notebook: Notebook) -> Notebook:
    cell(notebook, CHECK)["metadata"]["nbgrader"]["grade_id"] = "unknown"
    return notebook


def _half_a_character(notebook: Notebook) -> Notebook:
    """As a text that was cut in the middle of an emoji: JSON may hold it, no file can."""
    cell(notebook, "sampler")["source"] += "# \ud83d\n"
    notebook["cells"][0]["source"] = "\ud83d"
    return notebook


def _swapped(notebook: Notebook) -> Notebook:
    """Two exercise cells with each other's metadata."""
    mine, other = cell(notebook, EXERCISE), cell(notebook, "sampler")
    mine["metadata"], other["metadata"] = other["metadata"], mine["metadata"]
    return notebook


# student -> what was handed in, and what the page must say.
HANDED_IN: dict[str, tuple[Callable[[], Notebook | str], str]] = {
    "colab": (_colab, FOUND),
    "vscode": (_vs_code, FOUND),
    "jupyterlab": (_base, FOUND),
    "windows": (lambda: "\ufeff" + json.dumps(_base()).replace("\\n", "\\r\\n"), FOUND),
    "stripped": (lambda: _each(_base(), lambda c: c.update(metadata={})), FOUND),
    "copied": (lambda: _copied(_base()), FOUND),
    "reordered": (lambda: _base() | {"cells": _base()["cells"][::-1]}, FOUND),
    "edited": (lambda: _edited(_base()), FOUND),
    "demoted": (lambda: _demoted(_base()), FOUND),
    "unknown": (lambda: _renamed(_base()), FOUND),
    "nocheck": (lambda: _without(_base(), CHECK), FOUND),
    "noexercise": (lambda: _without(_base(), EXERCISE), "The exercise cell is missing"),
    "kernelspec": (
        lambda: _base() | {"metadata": {"kernelspec": {"name": "julia-1.9", "display_name": SCRIPT}}},
        FOUND,
    ),
    "surrogate": (lambda: json.dumps(_half_a_character(_base())), FOUND),
    "swapped": (lambda: _swapped(_base()), FOUND),
    "sameids": (lambda: _each(_base(), lambda c: c.update(id="same")), FOUND),
    "longline": (lambda: _huge_line(_base()), FOUND),
    "odd": (lambda: _base() | {"cells": [None, 3, {"cell_type": ["x"]}, *_base()["cells"]]}, FOUND),
    "format3": (lambda: {"nbformat": 3, "worksheets": []}, "no cells"),
    "json": (lambda: json.dumps(_base())[:-40], "no valid JSON"),
    "nested": (lambda: '{"cells": ' + "[" * 100_000, "no valid JSON"),
    "binary": (lambda: "\x00\x01\x02", "no valid JSON"),
    "empty": (lambda: "", "handed in"),
}


@pytest.fixture(scope="module")
def graded(place: Path, course: Path, lockstep: Lockstep) -> Any:
    """All of them in one batch, and an ordinary one that comes last."""
    for student, (make, _) in HANDED_IN.items():
        notebooks.write(place / "in" / student / f"{LAB}.ipynb", make())
    notebooks.write(place / "in" / "renamed" / "my best try.ipynb", _base())
    notebooks.write(place / "in" / "zoe.ipynb", _base())
    return lockstep("grade", place / "in", "--course", course, "--jobs", 2)


def test_nobody_stops_the_batch(graded: Any) -> None:
    count = len(HANDED_IN) + 2
    assert f"{count} submissions of lab2: {count} graded now, 0 unchanged, 0 not graded" in graded.output
    assert graded.exit_code == 0, (graded.output, graded.exception)


@pytest.mark.parametrize("student", [*HANDED_IN, "renamed", "zoe"])
def test_the_page_says_what_happened(graded: Any, course: Path, student: str) -> None:
    page = (course / "reports" / student / f"{LAB}.html").read_text()
    assert HANDED_IN.get(student, (None, FOUND))[1] in page
    assert dangers(page) == []


@pytest.mark.parametrize("student", HANDED_IN)
def test_nbgrader_has_it_in_the_released_frame(graded: Any, course: Path, student: str) -> None:
    path = course / "autograded" / student / LAB / f"{LAB}.ipynb"
    assert path.stat().st_size < 1_000_000
    autograded = json.loads(path.read_text())
    check = cell(autograded, CHECK)
    assert "".join(check["source"]) == cell(notebooks.released(), CHECK)["source"]
    assert "".join(check["outputs"][0]["data"]["text/plain"]) == "0.0"
