"""The notebooks that students open, run from top to bottom as they are, without a network or a GPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.build import tree

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(400)  # seconds on an idle machine
CELL_SECONDS = 100


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of the course folder that the notebooks need, to be written into."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "course.yaml", folder)
    shutil.copytree(ROOT / "labs", folder / "labs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return folder


def run(notebook: Any, folder: Path) -> Any:
    """Execute every cell in ``folder`` and return the notebook; nothing may go to stderr, nothing may raise."""
    client = NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(folder)}})
    client.execute()
    for cell in code_cells(notebook):
        assert cell.execution_count is not None, cell.source
        assert not [output for output in cell.outputs if output.get("name") == "stderr"], cell.source
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def with_line(notebook: Any, text: str) -> Any:
    """The one code cell that contains ``text``."""
    [cell] = [cell for cell in code_cells(notebook) if text in cell.source]
    return cell


def check_cells(notebook: Any) -> list[Any]:
    """The cells that check an exercise; there are some."""
    found = [cell for cell in code_cells(notebook) if cell.source.startswith("check(")]
    assert found
    return found


def said(cell: Any) -> str:
    """Printed and displayed text of a cell, HTML included."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join(parts)


def pictures(cell: Any) -> list[str]:
    return [kind for output in cell.outputs for kind in output.get("data", {}) if kind.startswith("image/")]


@pytest.fixture(scope="module")
def started(course: Path) -> Any:
    """The start notebook after a run, with the first cell as the text asks for it."""
    notebook = nbformat.read(course / "labs" / "start.ipynb", as_version=4)
    hello = with_line(notebook, "def hello()")
    assert "\n# simulator.run" in hello.source
    hello.source = hello.source.replace("\n# simulator.run", "\nsimulator.run")
    return run(notebook, course / "labs")


def test_every_cell_of_the_start_notebook_shows_what_its_text_promises(started: Any) -> None:
    assert "hello from rank 2 of 3" in said(with_line(started, "def hello()"))
    assert "counter in this notebook: 0" in said(with_line(started, "counter = 0"))
    assert "[10.0, 10.0, 10.0, 10.0]" in said(with_line(started, "def add_up()"))
    assert "event by event: True" in said(with_line(started, "hang.replay"))
    assert "killed" in said(with_line(started, "lost.timeline()"))
    for text in ("def work_then_add()", "hang.timeline()", "lost.timeline()"):
        assert pictures(with_line(started, text))


def test_the_hang_of_the_start_notebook_is_explained(started: Any) -> None:
    explained = " ".join(said(with_line(started, "hang.outcome.explain()")).split())
    assert explained.startswith("CollectiveTimeout")
    assert "rank 0 waits in all_reduce #2" in explained
    assert "rank 2 has finished" in explained
    assert "replay: simulator.run(train, world_size=4" in explained
    assert "Traceback" not in explained


def test_the_untouched_lab_fails_with_a_reason(course: Path) -> None:
    notebook = run(nbformat.read(course / "labs" / "lab2" / "lab2.ipynb", as_version=4), course / "labs" / "lab2")
    for cell in check_cells(notebook):
        assert "still the starter" in said(cell)
        assert "Traceback" not in said(cell)
    assert "not written yet" in said(with_line(notebook, "ring = simulator.run"))


def test_the_reference_lab_passes(course: Path) -> None:
    folder = course / "labs" / "lab2"
    (folder / "lab2.ipynb").write_bytes(tree.solution_notebook(ROOT, "lab2"))
    notebook = run(nbformat.read(folder / "lab2.ipynb", as_version=4), folder)
    for cell in check_cells(notebook):
        assert "passed" in said(cell).lower(), said(cell)
    for text in ("hub = simulator.run", "ring = simulator.run"):
        assert pictures(with_line(notebook, text))
        assert "[10.0, 10.0, 10.0], [10.0, 10.0, 10.0]" in said(with_line(notebook, text))
    table = said(with_line(notebook, "def tree_all_reduce")).splitlines()
    fastest = [line.split()[-1] for line in table if " KB" in line]  # of 2, 4 and 8 ranks, small tensors first
    assert fastest[6:12] == ["tree"] * 4 + ["ring"] * 2
    assert fastest[12:18] == ["tree"] * 5 + ["ring"]
    assert "[[1.0], [1.0, 0.5]]" in said(with_line(notebook, "with Join("))


@pytest.mark.parametrize("path", ["start.ipynb", "lab2/lab2.ipynb"])
def test_a_student_notebook_holds_no_answer_and_no_output(path: str) -> None:
    notebook = json.loads((ROOT / "labs" / path).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        assert "SOLUTION" not in text
        assert "# why:" not in text
        assert "# stub:" not in text
        assert not cell.get("outputs")
