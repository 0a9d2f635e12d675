"""The builder: deterministic, strict, and nothing is written when anything is malformed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.preprocessors import CheckCellMetadata

from autograder import course, lab_file
from autograder.build import tree
from autograder.errors import SolutionMarkerError
from tests.autograder.small import COURSE, EXERCISE, LAB, hints_text, write_course

NOTEBOOK = "labs/lab2/lab2.ipynb"
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"

MALFORMED = {
    "unclosed": (END, "", "solutions/lab2/lab.py:11: BEGIN SOLUTION is never closed in this cell"),
    "nested": (END, BEGIN + END, "lab.py:15: BEGIN SOLUTION inside the region that line 11 opened"),
    "unopened": (BEGIN, "", "lab.py:14: END SOLUTION without a BEGIN SOLUTION"),
    "nearly": (BEGIN, "    #### BEGIN SOLUTION\n", "lab.py:11: write markers as"),
    "no region": (BEGIN, "", "a '# stub:' line outside a solution region"),
    "outside": ('print("the end")', f"{BEGIN}{END}", "lab.py:21: a solution marker outside an exercise cell"),
    "in markdown": ("# ## Ring", "# ### BEGIN SOLUTION\n# ## Ring", "lab.py:2: a solution marker outside"),
    "unknown id": ("# exercise: lab2/ring-all-reduce", "# exercise: lab2/tree", "lab.py:9: 'lab2/tree' is no exercise"),
    "no exercise": (
        "# exercise: lab2/ring-all-reduce\n",
        "",
        "lab.py:1: lab2/ring-all-reduce is in course.yaml but has no exercise",
    ),
    "no check": (
        'check("lab2/ring-all-reduce")',
        "1",
        "lab.py:1: lab2/ring-all-reduce is in course.yaml but has no check",
    ),
    "check and more": (
        'check("lab2/ring-all-reduce")',
        'check("lab2/ring-all-reduce")\n1',
        "lab.py:18: a check cell holds exactly",
    ),
    "twice": ("# %%\nprint", '# %%\ncheck("lab2/ring-all-reduce")\n\n# %%\nprint', "lab.py:21: a second check cell"),
    "late line": ("# exercise: lab2", "x = 1\n# exercise: lab2", "must be the first line of its cell"),
    "points": ("3 points", "4 points", "lab.py:2: the heading says 4 points, course.yaml says 3"),
    "minutes": ("30 minutes", "20 minutes", "lab.py:2: the heading says 20 minutes, course.yaml says 30"),
    "no setup": (' tags=["setup"]', "", 'needs a cell tagged "setup"'),
    "unknown tag": ('tags=["setup"]', 'tags=["stup"]', "lab.py:5: unknown tag 'stup'"),
    "name": (
        "def ring_all_reduce",
        "def ring",
        "lab.py:9: the student's version of the cell does not define ring_all_reduce",
    ),
    "stub": ("raise NotImplementedError(", "raise raise(", "the student's version of the cell is not valid Python"),
    "first marker": (
        "# %% [markdown]\n# ## Ring",
        "x = 1\n\n# %% [markdown]\n# ## Ring",
        "lab.py:1: text before the first cell",
    ),
}


def code(data: bytes) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("case", MALFORMED, ids=list(MALFORMED))
def test_a_malformed_source_is_named_by_line_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    old, new, said = MALFORMED[case]
    assert old in LAB
    write_course(tmp_path, lab=LAB.replace(old, new, 1))
    with pytest.raises(SolutionMarkerError) as error:
        tree.write(tmp_path, tree.generate(tmp_path))
    assert said in str(error.value)
    assert not (tmp_path / "labs").exists()


def test_every_problem_is_listed_at_once(tmp_path: Path) -> None:
    lab = LAB.replace("3 points", "4 points").replace(END, "")
    hints = hints_text().replace("    bytes:\n", "    byte:\n")
    with pytest.raises(SolutionMarkerError) as error:
        tree.generate(write_course(tmp_path, lab=lab, hints=hints))
    assert len(error.value.problems) == 4
    assert "ring-all-reduce has no hints for 'bytes'" in str(error.value)
    assert "no finding is called 'byte'" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("      question: the question\n", "", "missing required field `question`"),
        ("question: the question", "question: ''", "question is empty"),
        ("question: the question", "questions: what", "unknown field `questions`"),
    ],
)
def test_hints_are_strict(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SolutionMarkerError) as error:
        tree.generate(write_course(tmp_path, hints=hints_text().replace(old, new, 1)))
    assert said in str(error.value)
    assert "solutions/lab2/hints.yaml" in str(error.value)


def test_the_start_notebook_has_no_exercises(tmp_path: Path) -> None:
    with pytest.raises(SolutionMarkerError, match="the start notebook, which has none"):
        tree.generate(write_course(tmp_path, start=LAB))


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write_course(tmp_path)
    first = tree.generate(tmp_path)
    assert tree.differences(tmp_path, first) == [f"{name} is missing" for name in sorted(first)]
    assert tree.write(tmp_path, first) == sorted(first)
    assert tree.generate(tmp_path) == first
    assert tree.write(tmp_path, first) == []
    assert tree.differences(tmp_path, first) == []
    (tmp_path / NOTEBOOK).write_text("edited")
    assert tree.differences(tmp_path, first) == [f"{NOTEBOOK} differs from what its sources give"]


def test_a_new_cell_changes_no_other_cell_id(tmp_path: Path) -> None:
    before = json.loads(tree.generate(write_course(tmp_path))[NOTEBOOK])["cells"]
    write_course(tmp_path, lab="# %% [markdown]\n# New\n\n" + LAB)
    after = json.loads(tree.generate(tmp_path)[NOTEBOOK])["cells"]
    assert [c["id"] for c in after[1:]] == [c["id"] for c in before]
    assert len({c["id"] for c in after}) == len(after)


def test_students_get_the_stub_and_instructors_the_solution(tmp_path: Path) -> None:
    root = write_course(tmp_path)
    student, solution = tree.generate(root)[NOTEBOOK], tree.solution_notebook(root, "lab2")
    assert b"secret" not in student
    assert "".join(code(student)[1]["source"]) == (
        "# exercise: lab2/ring-all-reduce\ndef ring_all_reduce(tensor):\n"
        '    # About one line.\n    raise NotImplementedError("to do")'
    )
    assert "".join(code(solution)[1]["source"]).endswith("def ring_all_reduce(tensor):\n    secret = 41")
    assert b"stub" not in student + solution
    assert b"SOLUTION" not in student + solution


def test_a_region_without_stub_raises_not_implemented(tmp_path: Path) -> None:
    lab = "\n".join(line for line in LAB.splitlines() if "# stub:" not in line)
    student = tree.generate(write_course(tmp_path, lab=lab))[NOTEBOOK]
    assert code(student)[1]["source"][-1] == '    raise NotImplementedError("not written yet")'


def test_the_metadata_is_what_nbgrader_accepts(built: Path) -> None:
    data = (built / NOTEBOOK).read_bytes()
    notebook = nbformat.reads(data.decode(), as_version=4)
    nbformat.validate(notebook)
    CheckCellMetadata().preprocess(notebook, {})
    setup, exercise, check, _ = code(data)
    assert exercise["metadata"]["nbgrader"]["solution"] is True
    assert check["metadata"]["nbgrader"] | {"points": 3, "grade": True, "locked": True} == check["metadata"]["nbgrader"]
    assert [c["metadata"].get("editable") for c in (setup, exercise, check)] == [False, None, False]
    assert (exercise["id"], check["id"]) == ("ring-all-reduce", "check-ring-all-reduce")
    assert not any(c["outputs"] for c in code(data))


def test_what_checks_and_hints_need_travels_with_the_lab(built: Path) -> None:
    facts = lab_file.load(built, "lab2")
    assert facts.setup == "import torch\nimport torch.distributed as dist"
    assert "secret" not in facts.exercises[EXERCISE].starter
    assert facts.exercises[EXERCISE].hints["bytes"].invariant == "the invariant"


def test_the_readme_table_stands_between_its_markers(tmp_path: Path) -> None:
    write_course(tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{course.README_BEGIN}\nold\n{course.README_END}\nafter\n")
    tree.write(tmp_path, tree.generate(tmp_path))
    assert readme.read_text() == f"before\n{course.readme_table(course.load(tmp_path))}\nafter\n"
    readme.write_text(f"before\n{course.README_BEGIN}\n")
    with pytest.raises(SolutionMarkerError, match="needs both of its marker comments"):
        tree.generate(tmp_path)


def test_the_nbgrader_source_is_the_student_notebook(built: Path, tmp_path: Path) -> None:
    path = tree.nbgrader_source(built, "lab2", tmp_path)
    assert path == tmp_path / "lab2" / "lab2.ipynb"
    assert path.read_bytes() == (built / NOTEBOOK).read_bytes()


def test_an_unknown_check_is_an_error(tmp_path: Path) -> None:
    write_course(tmp_path, course=COURSE.replace("check: ring_all_reduce", "check: tree"))
    with pytest.raises(SolutionMarkerError, match="there is no check 'tree'"):
        tree.generate(tmp_path)
