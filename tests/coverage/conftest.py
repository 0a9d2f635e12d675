from collections.abc import Iterator

import pytest

from tests.coverage.plain import Plain


@pytest.fixture(scope="session")
def plain() -> Iterator[Plain]:
    """The warm server of plain gloo."""
    with Plain() as server:
        yield server
