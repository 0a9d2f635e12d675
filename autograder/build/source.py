"""Reading a solutions file: py:percent text to cells with line numbers, and solution regions to what students see.

jupytext reads the cells; the line numbers are ours, because every problem is reported as ``file:line: sentence``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

_CELL = re.compile(r"# %%(\s|$)")
_MARKER = re.compile(r"\s*### (BEGIN|END) SOLUTION\s*")
_NEARLY_MARKER = re.compile(r"\b(begin|end)[ _-]?solution\b", re.IGNORECASE)
_STUB = re.compile(r"(\s*)# stub:(?: (.*))?")
EXERCISE_LINE = re.compile(r"#\s*exercise:\s*(\S+)\s*")
CHECK_LINE = re.compile(r"check\(\s*[\"']([^\"']*)[\"']\s*\)\s*")
DEFAULT_STUB = 'raise NotImplementedError("not written yet")'

INCLUDE_LINE = re.compile(r"#\s*(include|question):\s*(\S+)\s*")

Kind = Literal["markdown", "setup", "exercise", "check", "code", "include", "question"]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        line: number of its first source line in its file.
        exercise: the id of the exercise, or the name that an include or question cell gives.
        file: the file, as problems call it.
        owner: the exercise whose cells.py it is from; "" for the lab's own.
    """

    kind: Kind
    source: str
    line: int
    tags: tuple[str, ...] = ()
    exercise: str = ""
    file: str = ""
    owner: str = ""


@dataclass(frozen=True)
class SourceFile:
    """A parsed solutions file; ``name`` is how problems call it."""

    name: str
    cells: tuple[Cell, ...]

    def of_kind(self, kind: Kind) -> list[Cell]:
        """The cells of one kind, in order."""
        return [cell for cell in self.cells if cell.kind == kind]

    def headings(self) -> set[str]:
        """The headings of the notebook, without their hashes."""
        lines = [line for cell in self.of_kind("markdown") for line in cell.source.split("\n")]
        return {line.lstrip("#").strip() for line in lines if line.startswith("#")}


def read(path: Path, name: str, problems: list[str], owner: str = "") -> SourceFile:
    """Parse ``path``; what cannot be read is added to ``problems`` and the cells are then empty."""
    import jupytext

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{name}:1: cannot be read ({error.__class__.__name__})")
        return SourceFile(name, ())
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines, 1) if _CELL.match(line)]
    parsed = jupytext.reads(text, fmt="py:percent").cells
    if len(parsed) != len(starts):
        problems.append(f"{name}:1: text before the first cell marker: start the file with '# %%'")
        return SourceFile(name, ())
    cells = [_cell(node, start, lines) for node, start in zip(parsed, starts, strict=True)]
    return SourceFile(name, tuple(replace(cell, file=name, owner=owner) for cell in cells))


def with_includes(source: SourceFile, parts: dict[str, SourceFile]) -> SourceFile:
    """``source`` with each include cell replaced by the cells of that part; includes of other names are dropped."""
    cells: list[Cell] = []
    for cell in source.cells:
        cells += parts[cell.exercise].cells if cell.kind == "include" and cell.exercise in parts else ()
        cells += [cell] if cell.kind != "include" else []
    return SourceFile(source.name, tuple(cells))


def _cell(node: dict[str, object], start: int, lines: list[str]) -> Cell:
    line = start + 1
    while line < len(lines) and not lines[line - 1].strip():
        line += 1
    source, metadata = str(node["source"]), node["metadata"]
    assert isinstance(metadata, dict)
    tags = tuple(metadata.get("tags", ()))
    if node["cell_type"] != "code":
        return Cell("markdown", source, line, tags)
    first = source.split("\n", 1)[0]
    if found := EXERCISE_LINE.fullmatch(first):
        return Cell("exercise", source, line, tags, found[1])
    if found := CHECK_LINE.fullmatch(source.strip()):
        return Cell("check", source.strip(), line, tags, found[1])
    if found := INCLUDE_LINE.fullmatch(source.strip()):
        return Cell("include" if found[1] == "include" else "question", source.strip(), line, tags, found[2])
    return Cell("setup" if "setup" in tags else "code", source, line, tags)


def marker_problems(cell: Cell) -> list[tuple[int, str]]:
    """Everything wrong with the solution markers of a cell, as (line in the file, sentence)."""
    problems: list[tuple[int, str]] = []
    opened = 0
    regions = 0
    for number, text in enumerate(cell.source.split("\n"), cell.line):
        marker = _MARKER.fullmatch(text)
        if marker is None:
            if _NEARLY_MARKER.search(text):
                problems.append((number, "write markers as '### BEGIN SOLUTION' and '### END SOLUTION', alone"))
            elif not opened and _STUB.fullmatch(text):
                problems.append((number, "a '# stub:' line outside a solution region"))
        elif cell.kind != "exercise":
            problems.append((number, "a solution marker outside an exercise cell"))
        elif marker[1] == "BEGIN":
            if opened:
                problems.append((number, f"BEGIN SOLUTION inside the region that line {opened} opened"))
            opened, regions = number, regions + 1
        elif not opened:
            problems.append((number, "END SOLUTION without a BEGIN SOLUTION"))
        else:
            opened = 0
    if opened:
        problems.append((opened, "BEGIN SOLUTION is never closed in this cell"))
    if cell.kind == "exercise" and not regions and not problems:
        problems.append((cell.line, "an exercise cell without a solution region"))
    return problems


def starter(source: str) -> str:
    """The student's version of an exercise cell: every region replaced by its stub lines (or the default stub)."""
    out: list[str] = []
    stub: list[str] | None = None
    indent = ""
    for text in source.split("\n"):
        marker = _MARKER.fullmatch(text)
        if marker and marker[1] == "BEGIN":
            stub, indent = [], text[: len(text) - len(text.lstrip())]
        elif marker:
            out += stub or [indent + DEFAULT_STUB]
            stub = None
        elif stub is None:
            out.append(text)
        elif found := _STUB.fullmatch(text):
            stub.append(found[1] + (found[2] or "") if found[2] else "")
    return "\n".join(out)


def solved(source: str) -> str:
    """The reference version of an exercise cell: markers and stub lines removed."""
    return "\n".join(t for t in source.split("\n") if not _MARKER.fullmatch(t) and not _STUB.fullmatch(t))
