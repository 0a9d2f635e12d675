"""What a cell uses beyond its exercise is told to the instructor; honest work is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import course, lab_file
from autograder.grading import extract, grade, reaching

ROOT = Path(__file__).resolve().parents[2]
GIVEN = "import torch\nimport torch.distributed as dist\nimport os\n"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import sys\nframe = sys._getframe().f_back", ["sys", "f_back", "_getframe"]),
        ("from simulator.rank import context\nfrom simulator import wire, steps", ["simulator.rank", "simulator.wire"]),
        ("import simulator\nsimulator.wire.Op = None", ["simulator.wire"]),
        ("torch.save(t, 'x')\nopen('y')\n__import__('socket')", ["torch.save", "open", "__import__"]),
        ("import os\nos.getpid()", []),  # the given code has it
        ("import simulator, math\nfor k in simulator.steps(3): dist.send(t, k)", []),
        ("def broken(:", []),
    ],
)
def test_what_is_told(source: str, found: list[str]) -> None:
    assert sorted(reaching.reaches(source, GIVEN)) == sorted(found)


def _given(exercise_id: str) -> str:
    facts = lab_file.load(ROOT, exercise_id.split("/")[0])
    return facts.setup_of(exercise_id) + facts.exercise(exercise_id).starter


def test_no_right_solution_of_the_course_is_told() -> None:
    told = {}
    for exercise in course.load(ROOT).exercises():
        folder = f"{exercise.id.replace('/', '_').replace('-', '_')}"
        texts = [ROOT / "solutions" / exercise.id / "cells.py", *(ROOT / "tests/variants" / folder).glob("*.py")]
        for path in texts:
            if found := reaching.reaches(path.read_text(), _given(exercise.id)):
                told[path.name] = found
    assert told == {}


def test_the_note_names_exercise_and_reach_and_needs_a_look() -> None:
    facts = lab_file.load(ROOT, "lab2")
    [note] = grade._reaching({"lab2/sampler": "import socket", "lab2/wrap": "x = 1"}, facts)
    assert note.startswith("lab2/sampler: the cell uses socket, which the exercise does not ask for")
    assert extract.needs_look(note)
