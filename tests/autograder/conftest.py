"""A built small course, and one warm job process for all checks of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.build import tree
from autograder.grading import JobHost, Params, check_exercise
from tests.autograder.small import EXERCISE, cell, write_course


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course, built. Tests must not write into it."""
    root = write_course(tmp_path_factory.mktemp("built"))
    tree.write(root, tree.generate(root))
    return root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small course, built, to write into."""
    root = write_course(tmp_path)
    tree.write(root, tree.generate(root))
    return root


@pytest.fixture(scope="session")
def host(built: Path) -> Iterator[JobHost]:
    """A job process that lives as long as the session; it is started here, so that it belongs to no single test."""
    with JobHost() as warm:
        check_exercise(cell("pass"), EXERCISE, Params(case="world_size=2,length=1"), host=warm, root=built)
        yield warm
