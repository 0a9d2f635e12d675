"""What a student can put into the instructor's terminal: one line of characters that are seen, and no more."""

from __future__ import annotations

import logging

import msgspec
import pytest

from autograder.nbgrader_bridge import acceptance, batch, seal, terminal
from autograder.nbgrader_bridge.batch import Row
from autograder.results import HELD, CheckResult, Finding, NotebookResult
from tests.nbgrader.notebooks import LAB

EVIL = "\x1b[1A\x1b[2K\r1/1  mallory  48 / 48\u202e\u2028\nneeds a look:\n  nothing\x9b\x00\ud800" + "A" * 3000


def _result(**of_one: object) -> NotebookResult:
    """A result of nothing, in which the exercise named `exercise` is changed."""
    result = seal.nothing(LAB, "")
    changed = [
        msgspec.structs.replace(e, findings=[], **of_one) if e.exercise == of_one["exercise"] else _untouched(e)
        for e in result.exercises
    ]
    return msgspec.structs.replace(result, exercises=changed)


def _untouched(exercise: CheckResult) -> CheckResult:
    fresh = Finding(key="unfinished", title="Not started yet", text="")
    return msgspec.structs.replace(exercise, findings=[fresh])


def _is_plain(line: str) -> bool:
    return line.isprintable() and len(line.splitlines()) <= 1


def test_a_line_stays_a_line_and_shows_what_was_in_it() -> None:
    shown = terminal.one_line(EVIL)
    assert _is_plain(shown)
    assert len(shown) == terminal.MOST
    assert shown.startswith(
        "\\x1b[1A\\x1b[2K 1/1  mallory  48 / 48\\u202e  needs a look:   nothing\\x9b\\x00\\ud800AAA"
    )
    assert shown.endswith("A…")
    assert terminal.one_line("Jos\xe9 O\u2019Hara, \u674e\u96f7") == "Jos\xe9 O\u2019Hara, \u674e\u96f7"
    assert terminal.one_line("x" * 300) == "x" * 300


def test_nothing_of_a_submission_reaches_the_terminal_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    title = Finding(key="raised", title=f"It failed with {EVIL}", text="")
    result = msgspec.structs.replace(
        seal.nothing(LAB, ""),
        exercises=[msgspec.structs.replace(e, findings=[title]) for e in seal.nothing(LAB, "").exercises],
    )
    rows = [
        Row(f"a{EVIL}", None, True, f"b{EVIL}", failed=True),
        Row("ben", result, True, "", (f"c{EVIL}",)),
    ]
    for line in (*batch.summary(rows, LAB, "", [f"not taken: {EVIL}"]), batch._line(rows[1])):
        terminal.say(line)
    lines = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert all(_is_plain(line) for line in lines)
    assert max(len(line) for line in lines if not line.startswith("  not taken")) < terminal.MOST + 70
    assert lines.count("needs a look:") == 1
    assert [line[:4] for line in lines if "mallory" in line] == ["  a\\", "  be", "  no", "   0"]
    terminal.say(EVIL, end=False)
    assert _is_plain(capsys.readouterr().out)


def test_log_lines_wait_for_the_end_of_a_line_and_cannot_forge_one(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.HeldLog() as log:
        logging.getLogger("autograder.anything").error("a failed\nValueError: \x1b[2J")
        assert capsys.readouterr().err == ""
        log.tell()
        assert capsys.readouterr().err == "a failed\nValueError: \\x1b[2J\n"
        logging.getLogger("autograder.anything").error("late")
    assert capsys.readouterr().err == "late\n"


def test_counts_agree_with_what_failed() -> None:
    result = _result(exercise="lab2/sampler", points=10.0)
    graded = msgspec.structs.replace(result, points=10.0)
    rows = [
        Row("ana", graded, True),
        Row("ben", graded, False),
        Row("cleo", result, True, "cannot be entered", failed=True),
        Row("dan", result, False, "the grader failed", failed=True),
        Row("d+d", None, True, "no name", failed=True),
    ]
    lines = list(batch.summary(rows, LAB))
    assert lines[0] == "5 submissions of lab2: 1 graded now, 1 unchanged, 3 not graded"
    assert "mean 10, median 10" in lines[1]
    assert batch._line(rows[2]) == "not graded  cannot be entered"


def test_badge_points_are_shown_beside_the_grade_and_called_so_when_held() -> None:
    stretch = next(e for e in seal.nothing(LAB, "").exercises if e.tier == "stretch")
    name, most = stretch.exercise, stretch.max_points
    earned = _result(exercise=name, points=most, parts=[])
    assert batch._line(Row("ana", earned, True)) == f"0 / 48 + {most:g} badge points  not started: 9 of 10"
    assert "badge" not in batch._line(Row("ana", _result(exercise="lab2/sampler", points=2.0, parts=[]), True))
    held = _result(exercise=name, held=most, parts=[])
    assert batch._line(Row("ana", held, True)) == f"   0 / 48  {most:g} badge points held; not started: 9 of 10"
    said = acceptance.waits(held, "Ben O'Hara", " --course x")[0]
    assert said.startswith(f"{most:g} badge points of {name[5:]} are held")
    assert said.endswith(f"""lockstep grade --course x --accept 'Ben O'"'"'Hara/{name[5:]}'""")
    uses = Finding(key=HELD, title="", text="", seen="os, " * 1000)
    long = msgspec.structs.replace(
        held, exercises=[msgspec.structs.replace(e, findings=[uses]) for e in held.exercises if e.held]
    )
    (line,) = Row("ana", long, True).looks("")
    assert line.endswith(f"lockstep grade --accept ana/{name[5:]}")
