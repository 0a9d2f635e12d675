"""Folders of submissions as they come, and names that nbgrader cannot carry."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.nbgrader_bridge import intake
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder, check_student_name
from tests.nbgrader import notebooks
from tests.nbgrader.notebooks import LAB, write


def test_three_layouts_in_one_folder(tmp_path: Path) -> None:
    write(tmp_path / "ana.ipynb", "{}")
    write(tmp_path / "ben" / "lab2.ipynb", "{}")
    write(tmp_path / "ben" / "scratch.ipynb", "{}")
    write(tmp_path / "cleo" / "lab2" / "my notebook.ipynb", "{}")
    write(tmp_path / ".cache" / "lab2.ipynb", "{}")
    write(tmp_path / "readme.txt", "")
    found = intake.find(tmp_path, LAB)
    assert found.not_taken == ("not taken: readme.txt",)
    assert [(s.student, s.notebook and s.notebook.name) for s in found.submissions] == [
        ("ana", "ana.ipynb"),
        ("ben", "lab2.ipynb"),
        ("cleo", "my notebook.ipynb"),
    ]


def test_nothing_to_grade_is_said_and_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "dora").mkdir()
    write(tmp_path / "ed" / "one.ipynb", "{}")
    write(tmp_path / "ed" / "two.ipynb", "{}")
    secret = write(tmp_path.parent / "secret.txt", "secret")
    (tmp_path / "finn.ipynb").symlink_to(secret)
    found = {s.student: s for s in intake.find(tmp_path, LAB).submissions}
    assert all(s.notebook is None for s in found.values())
    assert found["dora"].problem == "No notebook was handed in."
    assert "one.ipynb, two.ipynb" in found["ed"].problem
    assert "finn.ipynb" in found["finn"].problem


def test_of_two_submissions_of_one_student_one_counts_and_both_are_named(tmp_path: Path) -> None:
    write(tmp_path / "ana.ipynb", "{}")
    write(tmp_path / "ana" / "lab2.ipynb", "{}")
    write(tmp_path / "ana" / "lab1" / "lab1.ipynb", "{}")
    (ana,) = intake.find(tmp_path, LAB).submissions
    assert ana.notebook == tmp_path / "ana" / "lab2.ipynb"
    assert ana.notes == ("several notebooks were handed in: lab2.ipynb was graded, not ana.ipynb",)


def test_a_folder_that_cannot_be_read_or_is_very_deep_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Path.iterdir

    def iterdir(self: Path) -> Iterator[Path]:
        if self.name == "ben":
            raise PermissionError(13, "Permission denied")
        return honest(self)

    (tmp_path / "ben").mkdir()
    write(tmp_path / ("cleo" + "/d" * 30) / "lab2.ipynb", "{}")
    write(tmp_path / "ana.ipynb", "{}")
    monkeypatch.setattr(Path, "iterdir", iterdir)
    found = {s.student: s.problem for s in intake.find(tmp_path, LAB).submissions}
    assert found == {
        "ana": "",
        "ben": "No notebook was handed in, but * (cannot be read: Permission denied).",
        "cleo": "No notebook was handed in.",
    }


def test_what_platforms_made_is_read_unpacked_too(tmp_path: Path) -> None:
    write(tmp_path / "Ana Lee_17_assignsubmission_file_" / "lab2 (1).IPYNB", "{}")
    write(tmp_path / "leeana_17_204_lab2-1.ipynb", "{}")
    assert [s.student for s in intake.find(tmp_path, LAB).submissions if s.notebook] == ["Ana Lee", "leeana_17"]


def test_no_folder_and_no_submission_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match="not a folder"):
        intake.find(tmp_path / "nowhere", LAB)
    with pytest.raises(BridgeError, match="holds no notebook"):
        intake.find(tmp_path, LAB)


def test_only_the_notebook_and_its_time_are_taken(tmp_path: Path) -> None:
    place = tmp_path / "in" / "ana" / "lab2"
    write(place / "lab2.ipynb", "{}")
    write(place / "timestamp.txt", "2026-01-01 00:00:00.0 UTC")
    write(place / "page.html", "<script></script>")
    folder = CourseFolder.at(tmp_path / "course")
    (submission,) = intake.find(tmp_path / "in", LAB).submissions
    intake.bring_in(folder, submission, LAB)
    assert sorted(p.name for p in folder.submitted("ana", LAB).iterdir()) == ["lab2.ipynb", "timestamp.txt"]


@pytest.mark.parametrize("name", ["ana", "Müller, Anna", "anna.m@uni.example", "s-12_3", "O'Hara", "O\u2019Hara"])
def test_usual_names_are_students(name: str) -> None:
    check_student_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "a+b",
        "*",
        "[x]",
        "..",
        "-f",
        "a/b",
        "<b>",
        "a\nb",
        "",
        "'a",
        'a"b',
        "a\x1b[31m",
        "a\u202eb",
        " a",
        "a ",
        "a\\b",
        "a;b",
        "a$b",
    ],
)
def test_names_that_break_nbgrader_are_refused(name: str) -> None:
    with pytest.raises(BridgeError, match="cannot be a student's name"):
        check_student_name(name)


def test_the_lab_is_what_the_notebooks_say_it_is(tmp_path: Path) -> None:
    nothing = CourseFolder.at(tmp_path / "course")
    folder, packed = tmp_path / "in", tmp_path / "in.zip"
    notebooks.write(folder / "ana.ipynb", notebooks.released())
    (folder / "ben").mkdir()
    (folder / "ben" / "lab1.ipynb").symlink_to("/dev/zero")
    assert intake.lab_of(None, nothing, folder) == LAB
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("ana_1_2_lab1.ipynb", "{}")
        archive.writestr("ben/notes.txt", "# exercise: lab2/wrap")
    assert intake.lab_of(None, nothing, packed) == "lab1"
    notebooks.write(folder / "cleo" / "lab1.ipynb", "{}")
    for unclear in (None, folder, tmp_path / "none"):
        with pytest.raises(BridgeError, match="Name one with --assignment: lab1, lab2"):
            intake.lab_of(None, nothing, unclear)
    nothing.released(LAB).mkdir(parents=True)
    assert intake.lab_of(None, nothing) == LAB
