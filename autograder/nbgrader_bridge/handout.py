"""`lockstep release`: the course as students get it, as a folder or a zip archive.

Only what is on the list goes out, so that nothing private can slip in: no solutions, no tests (they hold wrong and
right solutions), no course folder of an instructor, no grading seed, nothing of git.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

import click

from autograder import course
from autograder.nbgrader_bridge.errors import BridgeError

PARTS = (
    *("README.md", "LICENSE", "Makefile", "course.yaml", "pyproject.toml", "constraints.txt"),
    *("simulator", "autograder", "tools", "labs", "homework", "docs"),
)
_LITTER = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "*.egg-info", "mutation_matrix.md")
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same course gives the same archive


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
def release(out: Path) -> None:
    """Write the course as students get it to the folder or zip archive OUT. Solutions and tests stay here."""
    if out.exists():
        raise BridgeError(f"{out} is there already. Remove it, or name another one.")
    root = course.find_root()
    if out.suffix != ".zip":
        count = copy(root, out)
    else:
        with tempfile.TemporaryDirectory(prefix="lockstep-") as place:
            count = copy(root, Path(place))
            _pack(Path(place), out)
    click.echo(f"{count} files in {out}; they hold no solution. Students unpack it and run `make start` in it.")


def copy(root: Path, out: Path) -> int:
    """Copy the parts of the course at `root` that students get to the folder `out`; returns the number of files."""
    out.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, out / name, ignore=_LITTER)
        elif source.is_file():
            shutil.copy2(source, out / name)
    return sum(path.is_file() for path in out.rglob("*"))


def _pack(folder: Path, out: Path) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{out.stem}/{path.relative_to(folder).as_posix()}", _WHEN)
            entry.external_attr = (path.stat().st_mode & 0o777) << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
