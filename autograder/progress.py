"""What this student did, in .lockstep/progress.json under the course folder. It stays on this machine.

A broken or unreadable file is set aside as progress.json.broken and an empty one is started: progress is a convenience
and must never stop a check.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from autograder.results import CheckResult

FILE = Path(".lockstep") / "progress.json"


class HintProgress(msgspec.Struct, frozen=True):
    """``stage`` stages are open, the last since ``opened_s``, when the checked cell had the digest ``cell``."""

    stage: int = 0
    opened_s: float = 0.0
    cell: str = ""
    cost_points: float = 0.0


class ExerciseProgress(msgspec.Struct, frozen=True):
    """One exercise: the last check (digest of its cell, finding keys) and the best points so far."""

    checks: int = 0
    passed: bool = False
    best_points: float = 0.0
    max_points: float = 0.0
    cell: str = ""
    findings: tuple[str, ...] = ()
    hints: dict[str, HintProgress] = {}
    ever_passed: bool = False
    passed_cell: str = ""  # the digest of the cell that passed last

    def with_hint(self, key: str, opened: HintProgress) -> ExerciseProgress:
        """A copy that records an opened hint stage for the finding ``key``."""
        return msgspec.structs.replace(self, hints={**self.hints, key: opened})


class AnswerProgress(msgspec.Struct, frozen=True):
    """A checkpoint question: the last letter, whether it is right, and how many different letters were tried."""

    letter: str
    right: bool
    tried: str = ""


class Prediction(msgspec.Struct, frozen=True):
    """A number that was committed before a cell revealed it; ``seen`` is the number that it revealed."""

    value: float
    unit: str = ""
    seen: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """The whole file: by exercise id, by question id (``lab2/name``), by the name of a prediction."""

    format: int = 1
    exercises: dict[str, ExerciseProgress] = {}
    answers: dict[str, AnswerProgress] = {}
    predictions: dict[str, Prediction] = {}

    def of(self, exercise_id: str) -> ExerciseProgress:
        """The progress of one exercise; empty if it was never checked."""
        return self.exercises.get(exercise_id, ExerciseProgress())

    def with_exercise(self, exercise_id: str, progress: ExerciseProgress) -> Progress:
        """A copy with one exercise replaced."""
        return msgspec.structs.replace(self, exercises={**self.exercises, exercise_id: progress})

    def hint_costs(self) -> float:
        """Points that the opened hints cost so far."""
        return sum(hint.cost_points for done in self.exercises.values() for hint in done.hints.values())

    def with_answer(self, question_id: str, letter: str, right: bool) -> Progress:
        """A copy that knows of an answer to a checkpoint question."""
        before = self.answers.get(question_id)
        tried = "".join(dict.fromkeys((before.tried if before else "") + letter))
        return msgspec.structs.replace(
            self, answers={**self.answers, question_id: AnswerProgress(letter, right, tried)}
        )

    def with_prediction(self, key: str, prediction: Prediction) -> Progress:
        """A copy that knows of a prediction."""
        return msgspec.structs.replace(self, predictions={**self.predictions, key: prediction})

    def after_check(self, result: CheckResult, source: str) -> Progress:
        """A copy that knows of this check of the cell ``source``."""
        old = self.of(result.exercise)
        new = msgspec.structs.replace(
            old,
            checks=old.checks + 1,
            passed=result.passed,
            ever_passed=old.ever_passed or result.passed,
            best_points=max(old.best_points, result.points),
            max_points=result.max_points,
            cell=digest(source),
            passed_cell=digest(source) if result.passed else old.passed_cell,
            findings=tuple(dict.fromkeys(f.key for f in result.findings)),
        )
        return self.with_exercise(result.exercise, new)


def digest(source: str) -> str:
    """A short digest of a cell that ignores trailing spaces and blank lines."""
    lines = [line.rstrip() for line in source.splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def load(root: Path) -> Progress:
    """Read the progress under the course folder ``root``."""
    path = root / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except FileNotFoundError:
        return Progress()
    except (msgspec.MsgspecError, OSError):
        if path.is_file():
            with contextlib.suppress(OSError):  # a folder that cannot be written: save says so
                os.replace(path, path.with_name(path.name + ".broken"))
        return Progress()


def save(root: Path, progress: Progress) -> str:
    """Write the progress; "" or one sentence that says why and where it cannot be saved."""
    try:
        _write(root / FILE, progress)
    except OSError as error:
        return (
            f"Your progress cannot be saved in {root / FILE}: {error.strerror}. Hints and status know nothing of this."
        )
    return ""


def _write(path: Path, progress: Progress) -> None:
    """Atomic: a reader sees the old file or the new one."""
    path.parent.mkdir(exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".progress-")
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(progress, order="deterministic"), indent=2) + b"\n")
    os.replace(temporary, path)
