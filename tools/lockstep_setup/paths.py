"""Where things are, and the environment that every program of the course is started with."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Settings of the user's shell that would make a virtual environment install or import from somewhere else.
_LEADS_ASTRAY = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "__PYVENV_LAUNCHER__")


def venv(root: Path) -> Path:
    return root / ".venv"


def python(root: Path) -> Path:
    return venv(root) / "bin" / "python"


def environment(root: Path) -> dict[str, str]:
    """The caller's environment with .venv active and nothing that leads out of it."""
    env = {name: value for name, value in os.environ.items() if name not in _LEADS_ASTRAY}
    env["VIRTUAL_ENV"] = str(venv(root))
    env["PATH"] = f"{venv(root) / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["PYTHONNOUSERSITE"] = "1"
    return env
