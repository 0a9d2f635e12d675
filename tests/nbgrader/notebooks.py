"""Notebooks that students might hand in, made from the real lab: plain dicts, changed by small functions."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from autograder import course
from autograder.build import tree

ROOT = Path(__file__).resolve().parents[2]
LAB = "lab2"
EXERCISE = "ring-all-reduce"
CHECK = f"check-{EXERCISE}"
MAX_POINTS = course.load(ROOT).lab(LAB).max_points  # of the core exercises: others earn badges
SCRIPT = "<script>alert('pwned')</script>"
Notebook = dict[str, Any]


def released() -> Notebook:
    """The notebook as students get it."""
    return _loads((ROOT / f"labs/{LAB}/{LAB}.ipynb").read_bytes())


def reference() -> Notebook:
    """The notebook with the reference solution."""
    return _loads(tree.solution_notebook(ROOT, LAB))


def mutant(name: str) -> Notebook:
    """The notebook with one of the wrong solutions of tests/mutants."""
    notebook = released()
    cell(notebook, EXERCISE)["source"] = (ROOT / f"tests/mutants/lab2_ring_all_reduce/{name}.py").read_text()
    return notebook


def hostile() -> Notebook:
    """The reference, in a notebook that claims points, would stop a kernel, and brings a script in every place."""
    notebook = reference()
    check = cell(notebook, CHECK)
    check["outputs"] = [
        {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "12.0"}},
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": SCRIPT}},
    ]
    check["source"] = "12.0  # all of them"
    copies = [deepcopy(check), deepcopy(check)]
    for each in notebook["cells"]:
        each["metadata"] = {}
    notebook["cells"] = [
        {**code("import os\nos._exit(3)"), "outputs": [{"output_type": "stream", "name": "stdout", "text": SCRIPT}]},
        *notebook["cells"],
        *copies,
        {"cell_type": "markdown", "id": "m", "metadata": {}, "source": f"{SCRIPT} [x](javascript:alert(1)) **fine**"},
        {"cell_type": "raw", "id": "r", "metadata": {"raw_mimetype": "text/html"}, "source": SCRIPT},
    ]
    return notebook


def cell(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    """The cell of that name."""
    found = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id]
    assert len(found) == 1, f"{len(found)} cells are called {grade_id}"
    return found[0]


def code(source: str) -> dict[str, Any]:
    """A code cell without metadata."""
    return {
        "cell_type": "code",
        "id": "extra",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def write(path: Path, notebook: Notebook | str) -> Path:
    """Writes a notebook, or a text that is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook), encoding="utf-8")
    return path


def _loads(data: bytes) -> Notebook:
    notebook: Notebook = json.loads(data)
    for each in notebook["cells"]:
        each["source"] = "".join(each["source"])
    return notebook
