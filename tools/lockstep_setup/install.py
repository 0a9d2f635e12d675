"""Bring .venv to what the command needs, doing nothing when it is there already."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import environment, paths, pip, stamp
from .stop import from_os_error

# Room for a CPU install with every extra (measured: 1.7 GB) and for the wheels that pip unpacks on the way.
_NEEDED_BYTES = 2_500_000_000
_NEEDED_TEMP_BYTES = 400_000_000

# JupyterLab asks the network for news and updates at its start. A course does not.
_QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}


def ensure(root: Path, extras: list[str], torch_index: str = "") -> bool:
    """Make .venv hold the course with `extras`; True when something had to be installed. Raises Stop."""
    with _alone(root):
        have = stamp.load(root)
        if have is not None and _enough(have, root, extras, torch_index) and paths.python(root).exists():
            return False
        try:
            _install(root, have, extras, torch_index)
        except OSError as error:
            raise from_os_error(error, root) from error
        return True


def _enough(have: stamp.Stamp, root: Path, extras: list[str], torch_index: str) -> bool:
    return (
        have.complete
        and have.key == stamp.key(root)
        and have.root == str(root)
        and set(extras) <= set(have.extras)
        and torch_index in ("", have.torch_index)
    )


def _install(root: Path, have: stamp.Stamp | None, extras: list[str], torch_index: str) -> None:
    environment.check_writable(root)
    moved = have is not None and have.root != str(root)
    if moved or not environment.works(root):
        environment.check_space(root, _NEEDED_BYTES)
        environment.check_space(Path(tempfile.gettempdir()), _NEEDED_TEMP_BYTES)
        environment.make(root)
        have = None
    have = have or stamp.Stamp()
    wanted = sorted({*have.extras, *extras})
    torch_index = torch_index or have.torch_index
    if have.key and not have.complete:
        print("The last install did not finish; going on with it.", flush=True)
    stamp.save(root, stamp.Stamp(stamp.key(root), str(root), have.extras, torch_index))
    _forget_half_installed(root)
    print(f"Installing the course ({', '.join(wanted)}) into {paths.venv(root).name} ...", flush=True)
    if torch_index:
        # --no-deps: everything else comes from the usual index, where the pins are.
        pip.install(root, "--upgrade", "--no-deps", "--index-url", torch_index, f"torch=={pip.pin(root, 'torch')}")
    pip.install(root, "setuptools")
    pip.install(root, "--no-build-isolation", "--editable", f".[{','.join(wanted)}]")
    _quiet_jupyterlab(root)
    stamp.save(root, stamp.Stamp(stamp.key(root), str(root), wanted, torch_index, complete=True))


def _forget_half_installed(root: Path) -> None:
    """pip writes a package's RECORD last and takes a package without it for installed: let it install that again."""
    for info in paths.venv(root).glob("lib/python*/site-packages/*.dist-info"):
        if not (info / "RECORD").exists():
            shutil.rmtree(info)


def _quiet_jupyterlab(root: Path) -> None:
    settings = paths.venv(root) / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "overrides.json").write_text(json.dumps(_QUIET, indent=2) + "\n")


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Two terminals must not install into one .venv. The lock is on the folder itself, so it leaves no file."""
    handle = os.open(root, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a network file system without locks: go on without
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("Another make is installing in this folder; waiting for it ...", flush=True)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
