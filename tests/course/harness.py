"""The wrong and right solutions in tests/mutants and tests/variants, read from their files.

A file holds one exercise cell. Comment lines at its top say what it is: ``# exercise: lab/name``, then for a mutant
``# finding: key`` (what the check must say first), ``# hint: key`` (whose hints fit; ``none`` if the finding says it
all) and ``# wrong: why``; for a variant ``# right: why``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HEADER = re.compile(r"# (exercise|finding|hint|wrong|right): (.+)")


@dataclass(frozen=True)
class Solution:
    """One exercise cell and what its header declares; ``finding`` and ``hint`` are empty for variants."""

    path: Path
    source: str
    exercise: str
    finding: str
    hint: str
    why: str

    @property
    def name(self) -> str:
        """How tests call it."""
        return f"{self.path.parent.name}/{self.path.stem}"


def read(path: Path) -> Solution:
    """Read one file; a header that is incomplete is an error."""
    source = path.read_text(encoding="utf-8")
    header: dict[str, str] = {}
    for line in source.splitlines():
        found = _HEADER.fullmatch(line)
        if not found:
            break
        header[found[1]] = found[2]
    kind = path.relative_to(ROOT / "tests").parts[0]
    wanted = {"mutants": {"exercise", "finding", "hint", "wrong"}, "variants": {"exercise", "right"}}[kind]
    assert set(header) == wanted, f"{path.name}: the header must have exactly {', '.join(sorted(wanted))}"
    why = header.get("wrong") or header["right"]
    return Solution(path, source, header["exercise"], header.get("finding", ""), header.get("hint", ""), why)


def solutions(kind: str) -> list[Solution]:
    """All ``mutants`` or ``variants``, by name."""
    return [read(path) for path in sorted((ROOT / "tests" / kind).glob("*/*.py"))]
