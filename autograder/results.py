"""What a check says, as data: the same objects in the notebook, on the command line and in the grader.

Results hold no time, process id, path or grading seed, so the same submission and parameters give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

FORMAT = 1
NOT_STARTED = "Not started yet"  # title of the finding of an untouched starter
NOT_GRADED = "not-graded"  # key of the finding that says why a whole notebook got 0 points unread
HELD = "held"  # key of the finding of a cell whose points wait for a person, and how the notes of its parts begin


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cases a check runs.

    ``visible`` cases are fixed and public. ``hidden`` cases are drawn from HMAC-SHA256(``seed``, exercise id), the same
    for a whole class unless ``student`` names one. ``fresh`` cases are drawn alike from a seed that anybody may know.
    ``until`` ends the check as soon as a finding of that key is there (for trying wrong solutions).
    ``case`` runs one case only, named as in a finding's replay line (for example ``world_size=3,length=7``).
    """

    kind: Literal["visible", "hidden", "fresh"] = "visible"
    seed: str = ""
    case: str | None = None
    student: str = ""
    until: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check saw, in words that say where.

    ``key`` names the hints that fit. ``hint`` is the next stage of them, Markdown, on what a grader hands back.
    """

    key: str
    title: str
    text: str
    expected: str = ""
    seen: str = ""
    rank: int | None = None
    step: int | None = None
    world_size: int | None = None
    case: str = ""
    picture_svg: str | None = None
    picture_text: str | None = None
    replay: str | None = None
    hint: str = ""


class Part(msgspec.Struct, frozen=True):
    """One separately graded property. ``note`` says why it was not looked at, if it was not."""

    key: str
    title: str
    passed: bool
    points: float
    max_points: float
    note: str = ""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one exercise. ``cases`` counts the cases that ran, by world size.

    The points of a ``stretch`` exercise say how far it is; they earn a badge when all are there, and no grade.
    ``hint_cost``: points that opened hints took off the points of the parts (graded homework only).
    ``held``: points that do not count before a person has read the cell, which reaches beyond its exercise.
    """

    format: int = FORMAT
    exercise: str
    points: float
    max_points: float
    passed: bool
    parts: list[Part]
    findings: list[Finding]
    cases: dict[str, int] = {}
    hint_cost: float = 0.0
    held: float = 0.0
    tier: Literal["core", "stretch"] = "core"

    @property
    def grade(self) -> float:
        """The points that count."""
        return self.points if self.tier == "core" else 0.0

    @property
    def max_grade(self) -> float:
        """The most that can count."""
        return self.max_points if self.tier == "core" else 0.0

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was written, in this cell or in another."""
        return any(finding.title == NOT_STARTED for finding in self.findings)


class NotebookResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one notebook. ``points`` and ``max_points`` are those that count: of its core exercises.

    ``notes`` says what was odd about the file. ``hints`` (exercise id -> finding key -> stages opened) and the
    checkpoint questions are read from the notebook, as its student left them.
    """

    format: int = FORMAT
    lab: str
    notebook: str
    exercises: list[CheckResult]
    notes: list[str]
    points: float
    max_points: float
    hints: dict[str, dict[str, int]] = {}
    questions_asked: int = 0
    questions_right: int = 0

    @property
    def why_unread(self) -> Finding | None:
        """The one finding of a notebook that could not be graded at all."""
        findings = [finding for exercise in self.exercises for finding in exercise.findings]
        return findings[0] if findings and all(finding.key == NOT_GRADED for finding in findings) else None


def badges(results: Sequence[CheckResult]) -> str:
    """How many stretch exercises are passed, as words; "" if there are none."""
    stretch = [result for result in results if result.tier == "stretch"]
    done = sum(result.passed for result in stretch)
    return f"badges: {done} of {len(stretch)} (stretch exercises, not part of the grade)" if stretch else ""


def to_json(result: CheckResult | NotebookResult) -> bytes:
    """Canonical JSON: two-space indent, fields in the order of the class, one newline at the end."""
    return msgspec.json.format(msgspec.json.encode(result, order="deterministic"), indent=2) + b"\n"
