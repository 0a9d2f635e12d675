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
from autograder.errors import CourseFileError, SolutionMarkerError
from tests.autograder.small import CELLS, EXERCISE, LAB, QUESTIONS, hints_text, write_course

NOTEBOOK = "labs/lab2/lab2.ipynb"
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"

MALFORMED = {
    "unclosed": (END, "", "cells.py:7: BEGIN SOLUTION is never closed in this cell"),
    "nested": (END, BEGIN + END, "cells.py:11: BEGIN SOLUTION inside the region that line 7 opened"),
    "unopened": (BEGIN, "", "cells.py:10: END SOLUTION without a BEGIN SOLUTION"),
    "nearly": (BEGIN, "    #### BEGIN SOLUTION\n", "cells.py:7: write markers as"),
    "no region": (BEGIN, "", "a '# stub:' line outside a solution region"),
    "outside": ('print("the end")', f"{BEGIN}{END}", "lab.py:18: a solution marker outside an exercise cell"),
    "in markdown": ("# ## Ring", "# ### BEGIN SOLUTION\n# ## Ring", "cells.py:2: a solution marker outside"),
    "unknown id": (
        "# exercise: lab2/ring-all-reduce",
        "# exercise: lab2/tree",
        "cells.py:5: 'lab2/tree' is no exercise",
    ),
    "no exercise": (
        "# exercise: lab2/ring-all-reduce\n",
        "",
        "cells.py:1: lab2/ring-all-reduce has an exercise.yaml but no exercise",
    ),
    "no check": (
        'check("lab2/ring-all-reduce")',
        "1",
        "cells.py:1: lab2/ring-all-reduce has an exercise.yaml but no check",
    ),
    "check and more": (
        'check("lab2/ring-all-reduce")',
        'check("lab2/ring-all-reduce")\n1',
        "cells.py:14: a check cell holds exactly",
    ),
    "twice": ("# %%\nprint", '# %%\ncheck("lab2/ring-all-reduce")\n\n# %%\nprint', "lab.py:18: a second check cell"),
    "late line": ("# exercise: lab2", "x = 1\n# exercise: lab2", "must be the first line of its cell"),
    "points": ("3 points", "4 points", "cells.py:2: the heading says 4 points, exercise.yaml says 3"),
    "minutes": ("30 minutes", "20 minutes", "cells.py:2: the heading says 20 minutes, exercise.yaml says 30"),
    "no setup": (' tags=["setup"]', "", 'needs a cell tagged "setup"'),
    "unknown tag": ('tags=["setup"]', 'tags=["stup"]', "lab.py:5: unknown tag 'stup'"),
    "name": (
        "def ring_all_reduce",
        "def ring",
        "cells.py:5: the student's version of the cell does not define ring_all_reduce",
    ),
    "stub": ("raise NotImplementedError(", "raise raise(", "the student's version of the cell is not valid Python"),
    "first marker": (
        "# %% [markdown]\n# ## Ring",
        "x = 1\n\n# %% [markdown]\n# ## Ring",
        "cells.py:1: text before the first cell",
    ),
    "no include": ("# include: ring-all-reduce", "1", "lab.py:1: # include: ring-all-reduce is missing"),
    "twice included": ("# include: tree", "# include: ring-all-reduce", "ring-all-reduce is included more than once"),
    "unknown include": ("# include: tree", "# include: trees", "lab.py:12: course.yaml does not name 'trees'"),
    "unknown question": ("# question: why", "# question: who", "lab.py:15: there is no question 'who'"),
    "question not shown": ("# question: why", "1", "why is shown 0 times"),
    "no such heading": ("section: Lab two", "section: Lab 2", "why: the lab has no heading 'Lab 2'"),
    "two right": ("{text: Speed.,", "{text: Speed., right: true,", "why: exactly one option must be right"),
    "few options": ("    - {text: Speed., why: It tempts. Not for small tensors.}\n", "", "why has 2 options"),
    "no why": ("It tempts. Not for small tensors.", "''", "why: every option needs a text and a why"),
}


def code(data: bytes) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("case", MALFORMED, ids=list(MALFORMED))
def test_a_malformed_source_is_named_by_line_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    old, new, said = MALFORMED[case]
    texts = {"lab": LAB, "cells": CELLS, "questions": QUESTIONS}
    [name] = [name for name, text in texts.items() if old in text]
    write_course(tmp_path, **{name: texts[name].replace(old, new, 1)})
    with pytest.raises(SolutionMarkerError) as error:
        tree.write(tmp_path, tree.generate(tmp_path))
    assert said in str(error.value)
    assert not (tmp_path / "labs").exists()


def test_every_problem_is_listed_at_once(tmp_path: Path) -> None:
    cells = CELLS.replace("3 points", "4 points").replace(END, "")
    hints = hints_text().replace("bytes:\n", "byte:\n")
    with pytest.raises(SolutionMarkerError) as error:
        tree.generate(write_course(tmp_path, cells=cells, hints=hints))
    assert len(error.value.problems) == 4
    assert "there are no hints for 'bytes'" in str(error.value)
    assert "no finding is called 'byte'" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  question: the question\n", "", "missing required field `question`"),
        ("question: the question", "question: ''", "question is empty"),
        ("question: the question", "questions: what", "unknown field `questions`"),
    ],
)
def test_hints_are_strict(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SolutionMarkerError) as error:
        tree.generate(write_course(tmp_path, hints=hints_text().replace(old, new, 1)))
    assert said in str(error.value)
    assert "solutions/lab2/ring-all-reduce/hints.yaml" in str(error.value)


def test_the_start_notebook_has_no_exercises(tmp_path: Path) -> None:
    with pytest.raises(SolutionMarkerError, match="the start notebook, which has none"):
        tree.generate(write_course(tmp_path, start=CELLS))


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
    cells = "\n".join(line for line in CELLS.splitlines() if "# stub:" not in line)
    student = tree.generate(write_course(tmp_path, cells=cells))[NOTEBOOK]
    assert code(student)[1]["source"][-1] == '    raise NotImplementedError("not written yet")'


def test_the_metadata_is_what_nbgrader_accepts(built: Path) -> None:
    data = (built / NOTEBOOK).read_bytes()
    notebook = nbformat.reads(data.decode(), as_version=4)
    nbformat.validate(notebook)
    CheckCellMetadata().preprocess(notebook, {})
    setup, exercise, check, _, _ = code(data)
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


def test_an_exercise_without_a_check_is_an_error(tmp_path: Path) -> None:
    write_course(tmp_path)
    (tmp_path / "solutions" / EXERCISE).rename(tmp_path / "solutions/lab2/tree")
    path = tmp_path / "solutions/lab2/tree/exercise.yaml"
    path.write_text(path.read_text().replace(EXERCISE, "lab2/tree"))
    with pytest.raises(SolutionMarkerError, match="there is no check of lab2/tree: write"):
        tree.generate(tmp_path)


def test_given_code_of_an_exercise_is_its_own(tmp_path: Path) -> None:
    own = '# %% tags=["setup"]\nGIVEN = 1\n\n'
    root = write_course(tmp_path, cells=own + CELLS)
    tree.write(root, tree.generate(root))
    facts = lab_file.load(root, "lab2")
    assert "GIVEN" not in facts.setup
    assert facts.setup_of(EXERCISE) == f"{facts.setup}\n\nGIVEN = 1"


def test_one_lab_can_be_built_alone(tmp_path: Path) -> None:
    files = tree.generate(write_course(tmp_path, start=CELLS), "lab2")
    assert sorted(files) == ["labs/lab2/lab.json", NOTEBOOK]


def test_a_question_is_a_locked_cell_and_one_for_the_letter(built: Path) -> None:
    cells = json.loads((built / NOTEBOOK).read_bytes())["cells"]
    [at] = [i for i, cell in enumerate(cells) if cell["id"] == "question-why"]
    assert "".join(cells[at]["source"]).splitlines()[2:] == [
        "- **A.** Its shape.",
        "- **B.** No hub.",
        "- **C.** Speed.",
    ]
    assert cells[at]["metadata"] == {"deletable": False, "editable": False}
    assert cells[at + 1]["source"] == ['answer("lab2/why", "")']
    solution = code(tree.solution_notebook(built, "lab2"))
    assert [c["source"] for c in solution if c["id"] == "answer-why"] == [['answer("lab2/why", "B")']]


def test_a_notebook_that_was_edited_is_not_overwritten_silently(small: Path) -> None:
    path = small / NOTEBOOK
    edited = json.loads(path.read_bytes())
    edited["cells"][0]["source"] = ["mine"]
    path.write_text(json.dumps(edited))
    with pytest.raises(CourseFileError, match=r"edited .* labs/lab2/lab2\.ipynb\. Move .* `lockstep build --force`"):
        tree.write(small, tree.generate(small))
    assert "mine" in path.read_text()
    assert tree.write(small, tree.generate(small), force=True) == [NOTEBOOK]
    (small / "solutions/lab2/lab.py").write_text(LAB.replace("# # Lab two", "# # Lab two\n# More."))
    assert NOTEBOOK in tree.write(small, tree.generate(small))
