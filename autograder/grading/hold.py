"""Points that wait for a person: those of a cell that reaches beyond its exercise count 0 until it was read.

The student's own check says the same before anything is handed in.
"""

from __future__ import annotations

import msgspec

from autograder.grading import reaching
from autograder.results import HELD, CheckResult, Finding, Part

MAX_NAMES = 6  # that are told of one cell


def hold(result: CheckResult, source: str, given: tuple[str, ...]) -> CheckResult:
    """The result of a cell; if it has points and reaches too far, with these in `held` and a finding that says why.

    Args:
        source: the exercise cell.
        given: setup and starter code of the exercise.
    """
    found = reaching.reaches(source, *given) if result.points else {}
    if not found:
        return result
    used = ", ".join(f"`{name}` (line {line})" for name, line in list(found.items())[:MAX_NAMES])
    more = f" and {len(found) - MAX_NAMES} more" if len(found) > MAX_NAMES else ""
    finding = Finding(
        key=HELD,
        title="This cell reaches beyond its exercise, so its points wait",
        text=f"The cell uses {used}{more}, which the exercise does not need. The grader holds the points of such a "
        "cell until a person has read it: write it without, or ask the person who grades.",
        expected="only torch, plain Python and what setup and starter use",
        seen=", ".join(list(found)[:MAX_NAMES]) + more,
    )
    return msgspec.structs.replace(
        result,
        points=0.0,
        held=result.points,
        passed=False,
        parts=[_held(part) for part in result.parts],
        findings=[*result.findings, finding],
    )


def _held(part: Part) -> Part:
    if not part.points:
        return part
    return msgspec.structs.replace(part, passed=False, points=0.0, note=f"{HELD}: it would count {part.points:g}")
