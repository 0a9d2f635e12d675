"""Hints in four stages, keyed to what a check found: question, invariant, next step, worked sibling example.

Authors write solutions/<lab>/<exercise>/hints.yaml (format in docs/lab_anatomy.md); the build puts them into
labs/<lab>/lab.json, which travels to students. The next stage opens after a changed cell and a new check, or after some
minutes: the clock decides this and nothing else, and it can be passed in. What was opened is recorded on this machine
only.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder import strict_yaml
from autograder.progress import ExerciseProgress, HintProgress

HOMEWORK = "homework"  # the lab whose last stages cost points
STAGES = ("question", "invariant", "next_step", "example")
STAGE_TITLES = {
    "question": "a question about what was seen",
    "invariant": "what must hold",
    "next_step": "what to do next",
    "example": "a worked example of a sibling problem",
}


class Hint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The four stages for one finding, Markdown."""

    question: str
    invariant: str
    next_step: str
    example: str


class Opened(msgspec.Struct, frozen=True):
    """What ``next_hint`` decided: the text to show, and the progress that follows from it (unchanged if None).

    ``asks``: nothing is opened before the cost is accepted.
    """

    text: str
    stage: int = 0
    progress: HintProgress | None = None
    key: str = ""
    asks: bool = False


def load_yaml(path: Path, name: str) -> dict[str, Hint]:
    """Read a hints file, finding key -> stages, strictly; CourseFileError says what and where."""
    return strict_yaml.load(path, dict[str, Hint], name)


def next_hint(
    hints: dict[str, Hint],
    progress: ExerciseProgress,
    now_s: float,
    wait_s: float,
    last_costs: float = 0.0,
    accepted: bool = False,
) -> Opened:
    """Choose the next hint for the findings of the last check.

    Args:
        hints: finding key -> stages, for this exercise.
        progress: what the last check saw (there was one) and which stages are open.
        now_s: seconds on any clock that does not go backwards between calls.
        wait_s: seconds after which the next stage opens without a new check.
        last_costs: points that the last stage costs; then it opens only if that is ``accepted``.
    """
    if progress.passed:
        return Opened("The last check passed: there is nothing left to hint at.")
    key = next((k for k in progress.findings if k in hints), None)
    if key is None:
        return Opened("No hint fits what the last check found. Its text says what to do; change that and check again.")
    opened = progress.hints.get(key, HintProgress())
    if opened.stage == len(STAGES):
        text = _show(hints[key], key, opened.stage) + "\n\nThis was the last stage for this finding."
        return Opened(text, opened.stage, key=key)
    if opened.stage and not _may_open(opened, progress, now_s, wait_s):
        minutes = max(1, round((opened.opened_s + wait_s - now_s) / 60 + 0.5))
        rule = f"The next stage opens when you change the cell and check again, or in about {minutes} min."
        return Opened(f"{_show(hints[key], key, opened.stage)}\n\n{rule}", opened.stage, key=key)
    cost = last_costs if opened.stage + 1 == len(STAGES) else 0.0
    if cost and not accepted:
        text = f"The last stage for the finding '{key}', {STAGE_TITLES[STAGES[-1]]}, costs {cost:g} points."
        return Opened(f"{text} Nothing was opened.", opened.stage, key=key, asks=True)
    paid = opened.cost_points + cost
    after = HintProgress(stage=opened.stage + 1, opened_s=now_s, cell=progress.cell, cost_points=paid)
    return Opened(_show(hints[key], key, after.stage), after.stage, after, key)


def _may_open(opened: HintProgress, progress: ExerciseProgress, now_s: float, wait_s: float) -> bool:
    return progress.cell != opened.cell or now_s - opened.opened_s >= wait_s


def _show(hint: Hint, key: str, stage: int) -> str:
    name = STAGES[stage - 1]
    text: str = getattr(hint, name)
    return f"Hint {stage} of {len(STAGES)} for the finding '{key}': {STAGE_TITLES[name]}\n\n{text.strip()}"
