"""What students get: a course that works, without anything that gives solutions or grading away."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from click.testing import CliRunner

from autograder.nbgrader_bridge.handout import release
from tests.nbgrader.notebooks import EXERCISE, LAB, cell, reference


def test_the_archive_holds_no_solution_and_works(tmp_path: Path) -> None:
    out = tmp_path / "course.zip"
    result = CliRunner().invoke(release, [str(out)])
    assert result.exit_code == 0, (result.output, result.exception)
    with zipfile.ZipFile(out) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    assert all(name.startswith("course/") for name in names)
    assert {name.split("/")[1] for name in names}.isdisjoint({"solutions", "tests", "benchmarks", "grading", ".git"})
    secret = cell(reference(), EXERCISE)["source"]
    line = max((text.strip() for text in secret.splitlines() if not text.strip().startswith("#")), key=len)
    given = (tmp_path / "course" / "labs" / LAB / f"{LAB}.ipynb").read_text()
    assert line not in given
    assert [path for path in (tmp_path / "course").rglob("*.py") if line in path.read_text()] == []
    code = "from autograder import course; print(*[lab.id for lab in course.load().labs() if lab.exercises])"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "course", capture_output=True, text=True, check=True
    )
    assert LAB in said.stdout.split()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    result = CliRunner().invoke(release, [str(tmp_path / "mine")])
    assert "is there already" in str(result.exception)
