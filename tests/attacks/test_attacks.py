"""Each attack gets at most what its honest part earns, is reported, and harms nothing outside."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from autograder.grading import CheckResult, JobHost, Params, check_exercise
from tests.attacks.conftest import ONE_CASE, Outside
from tests.attacks.table import ATTACKS, COMPARISONS, DETOURS, EXERCISE, LIES, REACHES, Attack, honest
from tests.needs import needs_bubblewrap

pytestmark = [needs_bubblewrap, pytest.mark.timeout(400)]
HIDDEN = Params(kind="hidden", seed="canary seed")


@functools.cache
def _earned(base: str, params: Params, host: JobHost, course: Path) -> CheckResult:
    return check_exercise(honest(base), EXERCISE, params, host=host, root=course, room=f"honest {base}")


#: Of every kind some; the others run with the slow tests.
SAMPLE = {attack.name for attack in (*DETOURS, *REACHES)} | {
    "torch comparison",
    "the check's own code",
    "result bytes: a pickle",
    "result bytes: nested",
    "forged return",
    "announced sizes",
    "files, and a ring of empty messages",
    "open files",
}


def _attacks() -> list[object]:
    slow = [pytest.mark.slow]
    return [pytest.param(a, id=a.name, marks=[] if a.name in SAMPLE else slow) for a in ATTACKS]


def _attack(attack: Attack, params: Params, host: JobHost, course: Path, outside: Outside) -> None:
    before, fair = outside.digest(), _earned(attack.base, params, host, course)
    cell = attack.cell(**outside.names)
    # Wall-clock time: short where nothing else ends the attack, else long enough for a busy machine.
    deadline_s = 20.0 if "deadline" in attack.finds else 120.0
    result = check_exercise(cell, EXERCISE, params, host=host, root=course, room=attack.name, deadline_s=deadline_s)
    for part, allowed in zip(result.parts, fair.parts, strict=True):
        assert part.points <= allowed.points, (part, result.findings)
    seen = [finding.key for finding in result.findings]
    assert not attack.finds or set(seen) & set(attack.finds), (seen, result.findings)
    said = "\n".join(f"{finding.title} {finding.text}" for finding in result.findings)
    assert attack.says in said
    assert len(said) < 20_000
    assert outside.digest() == before
    assert not outside.was_reached()


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 40
    names = {attack.name for attack in ATTACKS}
    assert len(names) == len(ATTACKS)
    assert names > SAMPLE


@pytest.mark.parametrize("attack", _attacks())
def test_one_case(attack: Attack, sandboxed: JobHost, course: Path, outside: Outside) -> None:
    _attack(attack, ONE_CASE, sandboxed, course, outside)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS if a in (*LIES, *DETOURS, *COMPARISONS) or a.base != "nothing"])
def test_all_hidden_cases(attack: Attack, sandboxed: JobHost, course: Path, outside: Outside) -> None:
    _attack(attack, HIDDEN, sandboxed, course, outside)
