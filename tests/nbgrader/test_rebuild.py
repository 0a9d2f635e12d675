"""A submission in the released frame: what survives of it and what does not. No nbgrader step, no ranks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.nbgrader_bridge.rebuild import MAX_SOURCE, rebuild, salvage
from tests.nbgrader import notebooks
from tests.nbgrader.notebooks import CHECK, EXERCISE, cell


def _rebuilt(submitted: Any) -> NotebookNode:
    result = rebuild(nbformat.from_dict(notebooks.released()), nbformat.from_dict(submitted))
    nbformat.validate(result)
    return result


def _named(notebook: NotebookNode) -> dict[str, NotebookNode]:
    frame = _order(nbformat.from_dict(notebooks.released()))
    assert sorted(_order(notebook)) == sorted(frame), "every cell of the frame is there once"
    return {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}


def test_the_reference_keeps_its_text_and_gets_the_released_metadata() -> None:
    submitted = notebooks.reference()
    cells = _named(_rebuilt(submitted))
    assert cells[EXERCISE].source == "".join(cell(submitted, EXERCISE)["source"])
    assert cells[CHECK].metadata == cell(notebooks.released(), CHECK)["metadata"]


def test_without_any_metadata_the_exercise_is_found_by_its_line() -> None:
    submitted = notebooks.reference()
    text = "".join(cell(submitted, EXERCISE)["source"])
    for each in submitted["cells"]:
        each["metadata"], each["id"] = {}, f"other-{submitted['cells'].index(each)}"
    assert _named(_rebuilt(submitted))[EXERCISE].source == text


def test_without_metadata_and_line_the_only_cell_with_the_function_is_the_exercise() -> None:
    submitted = notebooks.reference()
    text = "".join(cell(submitted, EXERCISE)["source"]).split("\n", 1)[1]
    cell(submitted, EXERCISE)["source"] = text
    for i, each in enumerate(submitted["cells"]):
        each["metadata"], each["id"] = {}, f"other-{i}"
    assert _named(_rebuilt(submitted))[EXERCISE].source == text
    submitted["cells"].append(notebooks.code(text + "\n# again"))
    assert _named(_rebuilt(submitted))[EXERCISE].source == cell(notebooks.released(), EXERCISE)["source"]


def test_claims_of_the_submission_do_not_survive() -> None:
    rebuilt = _rebuilt(notebooks.hostile())
    assert all(c.outputs == [] for c in rebuilt.cells if c.cell_type == "code")
    assert _named(rebuilt)[CHECK].source == 'check("lab2/ring-all-reduce")'
    plain = [c for c in rebuilt.cells if "nbgrader" not in c.metadata]
    assert all(c.metadata == {} for c in plain)


@pytest.mark.parametrize("gone", [[EXERCISE], [CHECK], [EXERCISE, CHECK]])
def test_missing_cells_come_back_in_order(gone: list[str]) -> None:
    submitted = notebooks.released()
    lost = [cell(submitted, name) for name in gone]
    submitted["cells"] = [c for c in submitted["cells"] if c not in lost]
    rebuilt = _rebuilt(submitted)
    assert _order(rebuilt) == _order(nbformat.from_dict(notebooks.released()))


def _order(notebook: NotebookNode) -> list[str]:
    return [c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata]


def test_of_copies_the_last_one_counts_as_for_the_grader() -> None:
    submitted = notebooks.released()
    copy = deepcopy(cell(submitted, EXERCISE))
    copy["source"] = f"# exercise: lab2/{EXERCISE}\nsecond = True\n"
    submitted["cells"].append(copy)
    assert "second = True" in _named(_rebuilt(submitted))[EXERCISE].source


def test_edited_points_and_an_unlocked_check_are_the_released_ones_again() -> None:
    submitted = notebooks.released()
    cell(submitted, CHECK)["metadata"]["nbgrader"] |= {"points": 1000, "locked": False, "solution": True}
    assert _named(_rebuilt(submitted))[CHECK].metadata == cell(notebooks.released(), CHECK)["metadata"]


def test_a_check_cell_turned_into_markdown_is_code_again() -> None:
    submitted = notebooks.released()
    check = cell(submitted, CHECK)
    check["cell_type"] = "markdown"
    del check["outputs"], check["execution_count"]
    assert _named(_rebuilt(submitted))[CHECK].cell_type == "code"


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {},
        {"cells": None},
        {"cells": [None, 7, "text", {}, {"cell_type": "video"}]},
        {"cells": [{"cell_type": ["code"]}]},
        {"cells": [{"cell_type": "code", "source": 5, "metadata": [], "id": {}}]},
        {"cells": [{"cell_type": "code", "source": ["a", 3], "metadata": {"nbgrader": {"grade_id": ["x"]}}}]},
    ],
)
def test_whatever_is_no_notebook_gives_the_whole_frame(damaged: Any) -> None:
    _named(_rebuilt(damaged))
    _named(_rebuilt(salvage(damaged)))


def test_a_notebook_that_lacks_required_fields_keeps_its_text() -> None:
    submitted = notebooks.reference()
    for each in submitted["cells"]:
        each.pop("outputs", None)
        each.pop("id")
    text = cell(submitted, EXERCISE)["source"]
    assert _named(_rebuilt(salvage(submitted)))[EXERCISE].source == text


def test_a_giant_cell_is_cut() -> None:
    submitted = notebooks.released()
    submitted["cells"].append(notebooks.code("x" * (2 * MAX_SOURCE)))
    assert max(len(c.source) for c in _rebuilt(submitted).cells) < MAX_SOURCE + 100
