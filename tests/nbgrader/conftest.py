"""The lockstep command in this process, and course folders that are made once a module."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from autograder.nbgrader_bridge import commands
from tests.nbgrader.notebooks import LAB

Lockstep = Callable[..., Result]


def run(*args: object) -> Result:
    """`lockstep grade ...` or `lockstep nbgrader ...` for our lab, with output and exit code."""
    name, *rest = [str(arg) for arg in args]
    rest += ["--assignment", LAB]
    command: click.Command = getattr(commands, name)
    return CliRunner().invoke(command, rest)


@pytest.fixture(scope="session")
def lockstep() -> Lockstep:
    """The command; the result has `output`, `exit_code` and `exception`."""
    return run


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory, lockstep: Lockstep) -> Path:
    """A course folder with the assignment generated: made once, since creating a gradebook takes seconds."""
    folder = tmp_path_factory.mktemp("generated") / "course"
    result = lockstep("nbgrader", "generate", "--course", folder)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "student version in" in result.output
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one module's course and students."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def course(place: Path, generated: Path) -> Path:
    """This module's own course folder: a copy, for a course folder may be moved."""
    return Path(shutil.copytree(generated, place / "course"))
