"""One exercise of a lab, as its author describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class PartSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One separately graded property of an exercise."""

    key: str
    title: str
    points: float


class Exercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """solutions/<lab>/<name>/exercise.yaml.

    Attributes:
        id: ``lab/name``.
        minutes: from the heading to a passing check, for a student who has done what comes before.
        defines: the names that the cell must bind; the check calls them.
        parts: what is graded separately.
        forbidden: dotted names that raise when the cell uses them, because they are what it is to write.
    """

    id: str
    title: str
    tier: Literal["core", "stretch"]
    minutes: int
    points: float
    defines: tuple[str, ...]
    parts: tuple[PartSpec, ...]
    forbidden: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The part after the slash: the grade_id of the exercise cell."""
        return self.id.split("/", 1)[1]

    @property
    def grade_points(self) -> float:
        """What it can add to the grade: a stretch exercise earns a badge instead."""
        return self.points if self.tier == "core" else 0.0


def problems(exercise: Exercise) -> Iterator[str]:
    """What does not add up in an exercise, each as one sentence."""
    if not NAME.fullmatch(exercise.name):
        yield f"exercise id {exercise.id!r}: lower-case letters, digits and single hyphens after the slash"
    if not 1 <= exercise.minutes <= 120:
        yield f"{exercise.id}: minutes must be between 1 and 120"
    if not exercise.defines or not all(n.isidentifier() for n in exercise.defines):
        yield f"{exercise.id}: defines must list at least one Python name"
    keys = [part.key for part in exercise.parts]
    if len(set(keys)) < len(keys) or not keys:
        yield f"{exercise.id}: parts must not be empty and their keys must differ"
    if any(part.points <= 0 for part in exercise.parts):
        yield f"{exercise.id}: every part needs points above 0"
    total = sum(part.points for part in exercise.parts)
    if total != exercise.points:
        yield f"{exercise.id}: points is {exercise.points:g} but its parts add up to {total:g}"
