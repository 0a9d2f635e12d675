"""Every test runs under the leak check of tests/leaks.py."""

from tests.leaks import no_leaks, pytest_configure, pytest_runtest_makereport, pytest_sessionfinish, pytest_unconfigure

__all__ = ["no_leaks", "pytest_configure", "pytest_runtest_makereport", "pytest_sessionfinish", "pytest_unconfigure"]
