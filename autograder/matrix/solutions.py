"""Mutants and variants, read from their files; and the reference of an exercise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autograder.build import source as build_source
from autograder.errors import CourseFileError

Kind = Literal["mutants", "variants"]
_HEADER = re.compile(r"# (exercise|finding|hint|wrong|right): (.+)")
_WANTED = {"mutants": {"exercise", "finding", "hint", "wrong"}, "variants": {"exercise", "right"}}


@dataclass(frozen=True)
class Solution:
    """One exercise cell and what its header declares.

    Attributes:
        finding: what the check must say first; empty for variants.
        hint: whose hints must open; "none" where the finding says it all; empty for variants.
        why: why it is wrong, or right.
    """

    kind: Kind
    path: Path
    source: str
    exercise: str
    finding: str
    hint: str
    why: str

    @property
    def name(self) -> str:
        """How tables and tests call it."""
        return f"{self.path.parent.name}/{self.path.stem}"


def read(path: Path, kind: Kind) -> Solution:
    """Read one file; CourseFileError if its header is incomplete."""
    source = path.read_text(encoding="utf-8")
    header: dict[str, str] = {}
    for line in source.splitlines():
        found = _HEADER.fullmatch(line)
        if not found:
            break
        header[found[1]] = found[2]
    if set(header) != _WANTED[kind]:
        wanted = ", ".join(sorted(_WANTED[kind]))
        raise CourseFileError(f"{kind}/{path.parent.name}/{path.name}: the header must have exactly {wanted}")
    if path.parent.name != header["exercise"].replace("/", "_").replace("-", "_"):
        raise CourseFileError(f"{kind}/{path.parent.name}/{path.name} is of {header['exercise']}: another folder")
    why = header.get("wrong") or header["right"]
    return Solution(kind, path, source, header["exercise"], header.get("finding", ""), header.get("hint", ""), why)


def solutions(root: Path, kind: Kind, exercise: str = "") -> list[Solution]:
    """All mutants or variants below ``root``, of one exercise if given, by name."""
    folder = exercise.replace("/", "_").replace("-", "_") or "*"
    found = [read(path, kind) for path in sorted((root / "tests" / kind).glob(f"{folder}/*.py"))]
    return [solution for solution in found if exercise in ("", solution.exercise)]


def reference(root: Path, exercise: str) -> str:
    """The exercise cell of the reference; CourseFileError if the sources have none."""
    problems: list[str] = []
    name = f"solutions/{exercise}/cells.py"
    cells = build_source.read(root / name, name, problems).of_kind("exercise")
    found = [cell for cell in cells if cell.exercise == exercise]
    if problems or len(found) != 1:
        raise CourseFileError("; ".join(problems) or f"{name} must have one exercise cell of {exercise}")
    return build_source.solved(found[0].source)
