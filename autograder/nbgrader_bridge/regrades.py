"""What a second grading changed, with its reason: one JSON file a submission, beside its seal.

A grade that falls is never lowered without a word: the change is recorded here and told at the end of the grading.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from autograder.nbgrader_bridge.folder import CourseFolder

if TYPE_CHECKING:
    from autograder.nbgrader_bridge.seal import Seal


class Regrade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points before and now, and why they are not the same."""

    before: float
    now: float
    reason: str

    def __str__(self) -> str:
        word = "lowered" if self.now < self.before else "raised"
        return f"{word} from {self.before:g} to {self.now:g} points: {self.reason}"


@dataclass(frozen=True)
class Before:
    """An earlier seal: valid with the `present` grading seed, with an `earlier` one of this course folder, or `not`."""

    seal: Seal
    valid: Literal["present", "earlier", "not"]


def before(folder: CourseFolder, student: str, assignment: str) -> Before | None:
    """The result that a submission had; None if there is none."""
    from autograder.nbgrader_bridge import seal

    try:
        stored = msgspec.json.decode(folder.sealed(student, assignment).read_bytes(), type=seal.Seal)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
    for key in (folder.seal_key(), *folder.earlier_seal_keys()):
        if hmac.compare_digest(stored.mac, seal.mac(key, stored)):
            return Before(stored, "present" if key == folder.seal_key() else "earlier")
    return Before(stored, "not")


def note(folder: CourseFolder, old: Before, new: Seal) -> Regrade | None:
    """Record what the new result changes; None if the points are the same, or there were none that count."""
    if old.seal.broken or old.seal.result.points == new.result.points:
        return None
    change = Regrade(old.seal.result.points, new.result.points, _reason(old, new))
    path = folder.regrades(new.student, new.assignment)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode([*read(folder, new.student, new.assignment), change])))
    os.replace(part, path)
    return change


def read(folder: CourseFolder, student: str, assignment: str) -> list[Regrade]:
    """The changes of a submission, oldest first."""
    try:
        return msgspec.json.decode(folder.regrades(student, assignment).read_bytes(), type=list[Regrade])
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return []


def _reason(old: Before, new: Seal) -> str:
    reasons = {
        "the earlier result was edited, or sealed with a seed that is not here": old.valid == "not",
        "another submission": old.seal.submission_sha256 != new.submission_sha256,
        "another grading seed": old.valid == "earlier",
        "other hidden cases": old.seal.cases != new.cases,
        "held points were accepted": old.seal.accepted != new.accepted,
        "another version of the grader": old.seal.grader_sha256 != new.grader_sha256,
    }
    said = [reason for reason, holds in reasons.items() if holds]
    return " and ".join(said) or "the same submission, seed and grader gave another result: please look at it"
