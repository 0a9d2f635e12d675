"""What a saved notebook says of the hints that its student opened and the questions that they answered.

The file is untrusted: a student may delete or write such lines. Nothing that is graded rests on them, except that the
last stage of a homework's hint costs what course.yaml says.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from autograder.checks import names
from autograder.course import HintSettings
from autograder.hints import HOMEWORK, STAGES, Hint
from autograder.questions import Question
from autograder.results import CheckResult

MIME = "application/vnd.lockstep.hint+json"  # beside the text of an opened hint in a cell's output


class OpenedHint(msgspec.Struct, frozen=True):
    """One opened stage (1 to 4) of the hint for a finding."""

    exercise: str
    key: str
    stage: int
    cost_points: float = 0.0


def opened_hints(data: bytes) -> dict[str, dict[str, int]]:
    """Exercise id -> finding key -> the highest stage that an output of the notebook shows."""
    found: dict[str, dict[str, int]] = {}
    for cell in _code_cells(data):
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            shown = output.get("data") if isinstance(output, dict) else None
            if isinstance(shown, dict) and MIME in shown:
                try:
                    hint = msgspec.convert(shown[MIME], OpenedHint)
                except msgspec.ValidationError:
                    continue
                of_exercise = found.setdefault(hint.exercise, {})
                of_exercise[hint.key] = max(of_exercise.get(hint.key, 0), min(hint.stage, len(STAGES)))
    return found


def answers(data: bytes, lab_id: str, asked: Mapping[str, Question]) -> dict[str, str]:
    """Question id -> the letter in the notebook's last answer cell of it; only letters that the question has."""
    found: dict[str, str] = {}
    for cell in _code_cells(data):
        call = _answer_call(cell.get("source"))
        key = call[0].removeprefix(f"{lab_id}/") if call else ""
        if call and key in asked and call[1].strip().upper() in asked[key].letters():
            found[key] = call[1].strip().upper()
    return found


def answered_right(given: Mapping[str, str], asked: Mapping[str, Question]) -> int:
    """How many of the letters are right."""
    return sum(asked[key].letters()[letter].right for key, letter in given.items())


def with_next_hints(
    results: list[CheckResult], opened: Mapping[str, Mapping[str, int]], hints: Mapping[str, Mapping[str, Hint]]
) -> list[CheckResult]:
    """The results with the next stage of the fitting hint at each finding; never the last stage, the worked example."""
    return [_with_hints(r, opened.get(r.exercise, {}), hints.get(r.exercise, {})) for r in results]


def with_hint_costs(
    results: list[CheckResult], opened: Mapping[str, Mapping[str, int]], rules: HintSettings
) -> list[CheckResult]:
    """The results without the points that the last stages of opened hints cost. Hints of labs cost nothing.

    The price is that of `rules`, whatever the notebook says; no exercise falls below 0.
    """
    left, charged = rules.homework_cost_limit, []
    for result in results:
        last = sum(stage == len(STAGES) for stage in opened.get(result.exercise, {}).values())
        price = min(left, last * rules.homework_cost_points) if result.exercise.startswith(f"{HOMEWORK}/") else 0.0
        left -= price
        cost = min(price, result.points)
        charged.append(msgspec.structs.replace(result, points=result.points - cost, hint_cost=cost))
    return charged


def _with_hints(result: CheckResult, opened: Mapping[str, int], hints: Mapping[str, Hint]) -> CheckResult:
    findings = [
        msgspec.structs.replace(finding, hint=_stage(hints[finding.key], opened.get(finding.key, 0)))
        if finding.key in hints
        else finding
        for finding in result.findings
    ]
    return msgspec.structs.replace(result, findings=findings)


def _stage(hint: Hint, opened: int) -> str:
    """The text of the stage after the ``opened`` ones, at most the one before the last."""
    text: str = getattr(hint, STAGES[min(opened, len(STAGES) - 2)])
    return text.strip()


def _code_cells(data: bytes) -> Iterator[dict[str, Any]]:
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        return
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            yield cell


def _answer_call(source: Any) -> tuple[str, str] | None:
    """The two texts of a cell that is exactly ``answer("...", "...")``."""
    text = "".join(str(line) for line in source) if isinstance(source, list) else str(source)
    if "answer(" not in text or len(text) > 1000:
        return None
    try:
        node = next(ast.iter_child_nodes(names.parse(text.strip(), "eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "answer":
        return None
    texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return (texts[0], texts[1]) if len(texts) == len(node.args) == 2 else None
