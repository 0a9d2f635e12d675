"""What is installed in .venv: a small file there, so that a second call need not ask pip.

The key covers the two files that decide what belongs there, and the folder itself: a virtual environment that was moved
with its folder has its old address written into its scripts.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import paths


@dataclass
class Stamp:
    """What an install into .venv reached. `complete` is False from the first pip call to the last."""

    key: str = ""
    root: str = ""
    extras: list[str] = field(default_factory=list)
    torch_index: str = ""
    complete: bool = False
    checked: bool = False


def key(root: Path) -> str:
    """A digest of what decides the content of .venv."""
    parts = [(root / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def load(root: Path) -> Stamp | None:
    """The stamp of .venv, or None where there is none that can be read."""
    try:
        return Stamp(**json.loads(_file(root).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def save(root: Path, stamp: Stamp) -> None:
    """Write the stamp whole or not at all."""
    new = _file(root).with_suffix(".new")
    new.write_text(json.dumps(asdict(stamp)))
    new.replace(_file(root))


def _file(root: Path) -> Path:
    return paths.venv(root) / "lockstep.json"
