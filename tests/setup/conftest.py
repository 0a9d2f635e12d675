"""A small copy of the project in which the setup can be tried without the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for pip inside the small project's .venv: notes every call, then does what FAKE_PIP says.
_FAKE_PIP = """
import os, pathlib, sys, time
root = pathlib.Path(sys.prefix).parent
with open(root / "pip-calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
print("Collecting something")
print(os.environ.get("FAKE_PIP", ""), flush=True)
if "FAKE_PIP_HANGS" in os.environ:
    time.sleep(600)
sys.exit("ERROR" in os.environ.get("FAKE_PIP", ""))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """tools/, the Makefile and the two files that decide what is installed; no .venv."""
    root = tmp_path / "course"
    root.mkdir()
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root)
    return root


@pytest.fixture
def fake_pip(project: Path) -> Callable[[], list[str]]:
    """Give the project a working .venv whose pip is a stand-in; returns what reads the calls that it got."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    package = next(project.glob(".venv/lib/python*/site-packages")) / "pip"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(_FAKE_PIP)
    calls = project / "pip-calls"
    return lambda: calls.read_text().splitlines() if calls.exists() else []
