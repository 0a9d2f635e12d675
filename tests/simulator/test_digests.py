"""Twelve programs have the digests that were committed: the same on every machine."""

from pathlib import Path

import pytest

from tests.simulator import catalogue


@pytest.mark.parametrize("name", catalogue.CASES)
def test_the_digest_is_the_committed_one(name: str, tmp_path: Path) -> None:
    assert catalogue.digest(name, tmp_path / "folder") == catalogue.committed()[name]
