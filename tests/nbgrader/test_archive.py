"""Zip archives of submissions: those of learning platforms, and those that mean harm."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from autograder.nbgrader_bridge import archive, intake
from autograder.nbgrader_bridge.errors import BridgeError
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
        assert all(s.notebook is None or s.notebook.read_text() == NOTEBOOK for s in found)
        return {s.student: s.notebook is not None for s in found}


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (("ana.ipynb", "ben/lab2.ipynb", "cleo/lab2/lab2.ipynb", "readme.txt"), ["ana", "ben", "cleo"]),
        (("hw2/ana.ipynb", "hw2/ben/lab2.ipynb"), ["ana", "ben"]),
        (("Ana Lee_17_assignsubmission_file_/lab2.ipynb",), ["Ana Lee_17"]),
        (("leeana_17_204_lab2.ipynb", "royben_LATE_18_205_lab2-1.ipynb"), ["leeana_17", "royben_18"]),
        (("ana/lab2.ipynb", "__MACOSX/ana/._lab2.ipynb", "ana/.ipynb_checkpoints/lab2.ipynb"), ["ana"]),
    ],
    ids=["folders", "wrapped", "Moodle", "Canvas", "litter"],
)
def test_the_names_of_platforms(tmp_path: Path, names: tuple[str, ...], students: list[str]) -> None:
    assert _students(_zip(tmp_path / "in.zip", *names)) == dict.fromkeys(students, True)


@pytest.mark.parametrize("name", ["ana/../../up.ipynb", "/etc/ana.ipynb", "ana\\..\\up.ipynb", "ana/C:up.ipynb"])
def test_a_name_that_leads_out_is_refused_and_said(tmp_path: Path, name: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with intake.opened(_zip(place / "in.zip", name, "ben/lab2.ipynb"), LAB) as found:
        assert [s.student for s in found if s.notebook] == ["ben"]
        assert any("leads out of the archive" in s.problem for s in found)
    assert [p.name for p in place.iterdir()] == ["in.zip"]
    assert not (tmp_path / "up.ipynb").exists()


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("ana/lab2.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with intake.opened(_zip(tmp_path / "in.zip", link, text="/etc/passwd"), LAB) as (ana,):
        assert ana.notebook is None
        assert "is a link" in ana.problem


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    path = _zip(tmp_path / "in.zip", "ana/lab2.ipynb", text="0" * (8 << 20))
    assert path.stat().st_size < 1 << 16
    with intake.opened(path, LAB) as (ana,):
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
    with intake.opened(path, LAB) as (ana,):
        assert "is damaged" in ana.problem
    path.write_text("no archive")
    with pytest.raises(BridgeError, match="cannot be read as a zip archive"), intake.opened(path, LAB):
        pass
