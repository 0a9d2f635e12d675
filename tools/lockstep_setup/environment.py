"""Make .venv, or see that the one that is there works.

A .venv may be half-made (an interrupted first run), made by a Python that is gone, or moved together with its folder.
All three look alike from outside, so the test is to run its Python; what does not answer is made anew.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import paths
from .stop import Stop, from_os_error

_PROBE = "import sys, pip, ensurepip; print(sys.version_info >= (3, 11))"


def check_writable(folder: Path) -> None:
    """Raise Stop when no file can be made in `folder`."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
            file.flush()
    except OSError as error:
        raise from_os_error(error, folder) from error


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raise Stop when `folder` has less room than an install needs."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise Stop(
            f"the disk that holds {folder} has {free / 1e9:.1f} GB left and the install needs about "
            f"{needed_bytes / 1e9:.1f} GB. Free some space, then run the same command again."
        )


def works(root: Path) -> bool:
    """Whether .venv's Python starts, is new enough and has pip."""
    python = paths.python(root)
    if not python.exists():
        return False
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, env=paths.environment(root), timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.stdout.strip() == "True"


def make(root: Path) -> None:
    """Make .venv from nothing with the Python that runs this. Raises Stop when that Python cannot."""
    try:
        import ensurepip  # noqa: F401  (only its presence matters: Debian ships it in a package of its own)
        import venv  # noqa: F401
    except ImportError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Stop(
            f"this Python ({sys.executable}) has no {error.name} module, which makes the .venv folder. "
            f"Debian and Ubuntu: sudo apt install python3-venv python{version}-venv; then run the same command again."
        ) from error
    folder = paths.venv(root)
    print(f"Making {folder.name} with Python {sys.version.split()[0]} ...", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True, env=_clean(root), check=False
    )
    if made.returncode == 0:
        return
    check_writable(root)
    last = (made.stdout + made.stderr).strip().splitlines()[-1:] or ["no message"]
    raise Stop(
        f"python -m venv {folder} failed: {last[0]}. Remove that folder and run the same command again; "
        f"if it fails again, try another Python: make start PYTHON=python3.11"
    )


def _clean(root: Path) -> dict[str, str]:
    """The environment without .venv on its PATH: it is being made."""
    env = paths.environment(root)
    del env["VIRTUAL_ENV"]
    return env
