"""Zip archives of submissions: those of learning platforms, and those that mean harm."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from autograder.nbgrader_bridge import archive, intake
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import check_student_name
from autograder.nbgrader_bridge.intake import Submission
from tests.nbgrader.notebooks import LAB

NOTEBOOK = '{"cells": []}'


def _zip(path: Path, *names: str | zipfile.ZipInfo, text: str = NOTEBOOK) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(name, text)
    return path


def _students(path: Path) -> dict[str, bool]:
    """Student -> whether there is a notebook."""
    with intake.opened(path, LAB) as found:
        assert all(s.notebook is None or s.notebook.read_text() == NOTEBOOK for s in found.submissions)
        return {s.student: s.notebook is not None for s in found.submissions}


def _only(path: Path) -> Submission:
    """The one submission of an archive."""
    with intake.opened(path, LAB) as found:
        (submission,) = found.submissions
        return submission


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (("ana.ipynb", "ben/lab2.ipynb", "cleo/lab2/lab2.ipynb", "readme.txt"), ["ana", "ben", "cleo"]),
        (("hw2/ana.ipynb", "hw2/ben/lab2.ipynb"), ["ana", "ben"]),
        (("hw2/", "hw2/ana.ipynb", "__MACOSX/hw2/._ana.ipynb", "hw2/ben/lab2.ipynb"), ["ana", "ben"]),
        (("Ana Lee_17_assignsubmission_file_/lab2.ipynb",), ["Ana Lee"]),
        (
            ("Ana Lee_17_assignsubmission_file_lab2.ipynb", "Al_Bo_8_assignsubmission_file_x.ipynb"),
            ["Al_Bo", "Ana Lee"],
        ),
        (("Ana_1_assignsubmission_file_/lab2.ipynb", "Ana_2_assignsubmission_file/a.ipynb"), ["Ana_1", "Ana_2"]),
        (("leeana_17_204_lab2.ipynb", "royben_LATE_18_205_lab2-1.ipynb"), ["leeana_17", "royben_18"]),
        (("Ben O'Hara.ipynb", "O\u2019Hara/lab2.ipynb", " lead .ipynb"), ["Ben O'Hara", "O\u2019Hara", "lead"]),
        (
            ("Jose\u0301 Mari\u0301a.ipynb", "\u0915\u093f\u0930\u0923.ipynb"),
            ["Jos\xe9 Mar\xeda", "\u0915\u093f\u0930\u0923"],
        ),
        (("ana/lab2.IPYNB", "ben.IPYNB"), ["ana", "ben"]),
        (("ana/lab2.ipynb", "__MACOSX/ana/._lab2.ipynb", "ana/.ipynb_checkpoints/lab2.ipynb"), ["ana"]),
    ],
    ids=[
        "folders",
        "wrapped",
        "by a Mac",
        "Moodle",
        "flat",
        "namesakes",
        "Canvas",
        "accents",
        "decomposed",
        "big",
        "litter",
    ],
)
def test_the_names_of_platforms(tmp_path: Path, names: tuple[str, ...], students: list[str]) -> None:
    found = _students(_zip(tmp_path / "in.zip", *names))
    assert found == dict.fromkeys(students, True)
    for student in found:
        check_student_name(student)


@pytest.mark.parametrize("name", ["ana/../../up.ipynb", "/etc/ana.ipynb", "ana\\..\\up.ipynb", "ana/C:up.ipynb"])
def test_a_name_that_leads_out_is_refused_and_said(tmp_path: Path, name: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with intake.opened(_zip(place / "in.zip", name, "ben/lab2.ipynb"), LAB) as found:
        assert [s.student for s in found.submissions if s.notebook] == ["ben"]
        assert any("leads out of the archive" in s.problem for s in found.submissions)
    assert [p.name for p in place.iterdir()] == ["in.zip"]
    assert not (tmp_path / "up.ipynb").exists()


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("ana/lab2.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    ana = _only(_zip(tmp_path / "in.zip", link, text="/etc/passwd"))
    assert ana.notebook is None
    assert "is a link" in ana.problem


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    path = _zip(tmp_path / "in.zip", "ana/lab2.ipynb", text="0" * (8 << 20))
    assert path.stat().st_size < 1 << 16
    ana = _only(path)
    assert ana.notebook is None
    assert "unpacks to more than" in ana.problem


def test_too_much_altogether_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 20)
    with (
        pytest.raises(BridgeError, match="far too much"),
        intake.opened(_zip(tmp_path / "in.zip", "ana.ipynb", "ben.ipynb"), LAB),
    ):
        pass


def test_damage_and_what_is_no_archive_are_sentences(tmp_path: Path) -> None:
    path = _zip(tmp_path / "in.zip", "ana.ipynb")
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(data)
    assert "is damaged" in _only(path).problem
    path.write_text("no archive")
    with pytest.raises(BridgeError, match="cannot be read as a zip archive"), intake.opened(path, LAB):
        pass


def test_who_handed_in_something_else_is_there_with_it_and_what_is_nobodys_is_named(tmp_path: Path) -> None:
    other = ("Dora Nix_4_assignsubmission_file_/notes.pdf", "hal/answer.py", "ivy/lab2.zip", "fay/lab2.ipynb.txt")
    path = _zip(tmp_path / "in.zip", "ana.ipynb", "kim/", "jo.ipynb.txt", "README.txt", "_old/lab2.ipynb", *other)
    with intake.opened(path, LAB) as found:
        said = {s.student: s.problem for s in found.submissions}
    assert said == {
        "Dora Nix": "No notebook was handed in, but notes.pdf.",
        "ana": "",
        "fay": "No notebook was handed in, but lab2.ipynb.txt.",
        "hal": "No notebook was handed in, but answer.py.",
        "ivy": "No notebook was handed in, but lab2.zip.",
        "jo": "No notebook was handed in, but jo.ipynb.txt.",
        "kim": "No notebook was handed in.",
    }
    assert found.not_taken == ("not taken: README.txt, _old/lab2.ipynb",)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_several_notebooks_it_is_said_which_was_graded(tmp_path: Path) -> None:
    moodle = "Eva Lee_10_assignsubmission_file_"
    names = ("dan.ipynb", "dan/lab2.ipynb", f"{moodle}/lab2.ipynb", f"{moodle}/lab2-final.ipynb", "fay/b.ipynb")
    path = _zip(tmp_path / "in.zip", *names, "fay/a.ipynb", "gus.ipynb", "gus.ipynb", "lab2.ipynb", "hal/x/lab2.ipynb")
    with intake.opened(path, LAB) as found:
        said = {s.student: s.notes for s in found.submissions}
        assert [s.student for s in found.submissions if s.problem] == ["fay"]
    assert said["dan"] == ("several notebooks were handed in: lab2.ipynb was graded, not dan.ipynb",)
    assert said["Eva Lee"] == ("several notebooks were handed in: lab2.ipynb was graded, not lab2-final.ipynb",)
    assert said["gus"] == ("gus.ipynb is there more than once: the last one was graded",)
    assert said["lab2"] == ("lab2.ipynb: lab2 is the name of a lab, not of a student; call the file STUDENT.ipynb",)
    assert said["hal"] == ()


def test_namesakes_are_said(tmp_path: Path) -> None:
    ana = _zip(tmp_path / "in.zip", *(f"Ana_{n}_assignsubmission_file_/lab2.ipynb" for n in (1, 2)))
    with intake.opened(ana, LAB) as found:
        assert all("several people have this name" in s.notes[0] for s in found.submissions)


def test_a_name_that_is_too_long_stops_only_itself(tmp_path: Path) -> None:
    long = "x" * 300
    path = _zip(tmp_path / "in.zip", f"{long}.ipynb", f"ben/{long}.ipynb", "ana.ipynb")
    assert _students(path) == {"ana": True, "ben": True, long: True}
    with pytest.raises(BridgeError, match=r"^'x{59}…' has 300 characters: too long"):
        check_student_name(long)
