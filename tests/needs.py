"""Marks for tests that need something pip cannot install: skipped, with the command that installs it.

Where LOCKSTEP_NOTHING_SKIPPED is set (.ci/run sets it), tests/leaks.py turns such a skip into a failure.
"""

from __future__ import annotations

import functools
import shutil
import subprocess

import pytest

_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The path of an installed chromium, or None."""
    return next((path for name in _CHROMIUM_NAMES if (path := shutil.which(name))), None)


@functools.cache
def bubblewrap_works() -> bool:
    """Whether bubblewrap is installed and may make its namespaces on this machine."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    attempt = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    return subprocess.run(attempt, capture_output=True, timeout=20, check=False).returncode == 0


needs_chromium = pytest.mark.skipif(chromium() is None, reason="needs chromium: sudo apt install chromium")
needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="needs bubblewrap that may make namespaces: sudo apt install bubblewrap"
)
