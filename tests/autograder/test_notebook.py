"""check() and hint() inside IPython: which cell counts, what is shown, what is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import autograder
from autograder import lab_file, notebook, progress, record
from autograder.errors import LabError
from autograder.grading import JobHost
from tests.autograder import test_extract
from tests.autograder.small import EXERCISE, RIGHT, cell

UNKNOWN_NAME = cell("helper(tensor)")


@pytest.fixture
def shell(small: Path, host: JobHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An IPython shell in a small course, with the session's job process."""
    monkeypatch.chdir(small / "labs" / "lab2")
    monkeypatch.setattr(notebook, "_host", host)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.run_cell("from autograder import check, hint\ndist = None", store_history=True)
    yield shell
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, source: str) -> Any:
    return shell.run_cell(source, store_history=True).result


def test_the_cell_that_ran_last_is_checked(shell: InteractiveShell, small: Path) -> None:
    run(shell, RIGHT)
    run(shell, UNKNOWN_NAME)
    run(shell, "helper = print")
    view = run(shell, f'check("{EXERCISE}")')
    assert [f.key for f in view.result.findings] == ["name-only-in-kernel"]
    shown = view._repr_mimebundle_()
    assert "helper" in shown["text/plain"]
    assert "exists only in your kernel" in shown["text/html"]
    assert f'hint("{EXERCISE}")' in shown["text/plain"]
    assert progress.load(small).of(EXERCISE).findings == ("name-only-in-kernel",)

    hint = run(shell, f'hint("{EXERCISE}")')
    assert "Hint 1 of 4 for the finding 'name-only-in-kernel'" in hint._repr_mimebundle_()["text/markdown"]

    run(shell, RIGHT)
    assert run(shell, f'check("{EXERCISE}")').result.passed


def test_a_cell_that_lost_its_first_line_is_judged_in_place_of_an_older_one(shell: InteractiveShell) -> None:
    run(shell, RIGHT)
    run(shell, UNKNOWN_NAME.split("\n", 1)[1])
    view = run(shell, f'check("{EXERCISE}")')
    assert [f.key for f in view.result.findings] == ["name-only-in-kernel"]
    said = f"The cell lost its first line `# exercise: {EXERCISE}`; put it back."
    assert repr(view).startswith(said)
    assert said in view._repr_mimebundle_()["text/html"]

    run(shell, "def ring_all_reduce(tensor:\n")
    assert [f.key for f in run(shell, f'check("{EXERCISE}")').result.findings] == ["syntax"]

    run(shell, "# exercise: lab2/other\ndef ring_all_reduce(tensor): pass")
    run(shell, RIGHT)
    run(shell, "def not_it(tensor):\n    ring_all_reduce = 1\nring_all_reduce")
    view = run(shell, f'check("{EXERCISE}")')
    assert view.result.passed
    assert "lost" not in repr(view)


def test_without_a_run_cell_the_saved_notebook_counts(
    shell: InteractiveShell, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = small / "mine.ipynb"
    saved.write_bytes(test_extract.notebook((UNKNOWN_NAME, None)))
    monkeypatch.setenv("JPY_SESSION_NAME", str(saved))
    view = run(shell, f'check("{EXERCISE}")')
    assert [f.key for f in view.result.findings] == ["name-only-in-kernel"]
    assert "was not run in this kernel" in repr(view)

    monkeypatch.setenv("JPY_SESSION_NAME", "gone.ipynb")
    assert [f.key for f in run(shell, f'check("{EXERCISE}")').result.findings] == ["unfinished"]


def test_an_interrupted_check_says_so_and_records_nothing(
    shell: InteractiveShell, small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(notebook, "check_exercise", interrupt)
    assert repr(run(shell, f'check("{EXERCISE}")')) == "interrupted; nothing was recorded"
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert progress.load(small).of(EXERCISE).checks == 0


def test_where_nothing_can_be_saved_the_verdict_is_shown_all_the_same(shell: InteractiveShell, small: Path) -> None:
    (small / ".lockstep").write_text("in the way of the folder")
    view = run(shell, f'check("{EXERCISE}")')
    assert [f.key for f in view.result.findings] == ["unfinished"]
    assert f"Your progress cannot be saved in {small / progress.FILE}: " in repr(view)


def test_an_unknown_exercise_is_a_sentence_without_a_traceback(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell('check("lab2/tree")')
    assert isinstance(result.error_in_exec, LabError)
    shown = capsys.readouterr()
    assert "there is no exercise 'lab2/tree'" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_outside_ipython_the_saved_notebook_is_checked(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    InteractiveShell.clear_instance()
    monkeypatch.chdir(small)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert "still the starter" in repr(autograder.check(EXERCISE))
    assert "Hint 1 of 4 for the finding 'unfinished'" in repr(autograder.hint(EXERCISE))


def test_code_in_a_cell_without_marks_is_named_where_the_marked_cell_is_untouched(
    shell: InteractiveShell, small: Path
) -> None:
    starter = lab_file.load(small, "lab2").exercise(EXERCISE).starter
    run(shell, "# my own cell\n" + RIGHT.split("\n", 1)[1])
    run(shell, starter)
    [finding] = run(shell, f'check("{EXERCISE}")').result.findings
    assert finding.title == "Your code is in another cell"
    assert "it begins with `# my own cell`. Move your code into the marked cell" in finding.text


def test_fresh_cases_are_other_cases(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook.secrets, "token_hex", lambda n: "abc")
    run(shell, RIGHT.replace("add_(arriving)", "sub_(arriving)"))
    [finding] = run(shell, f'check("{EXERCISE}", fresh=True)').result.findings
    assert ",draw=" in finding.replay


def test_an_opened_hint_is_recorded_in_the_output(shell: InteractiveShell) -> None:
    run(shell, UNKNOWN_NAME)
    run(shell, f'check("{EXERCISE}")')
    shown = run(shell, f'hint("{EXERCISE}")')._repr_mimebundle_()
    output = {"output_type": "display_data", "metadata": {}, "data": shown}
    saved = {"cells": [{"cell_type": "code", "source": "hint(...)", "outputs": [output]}]}
    assert record.opened_hints(json.dumps(saved).encode()) == {EXERCISE: {"name-only-in-kernel": 1}}


def test_a_question_is_answered_with_a_reason_and_recorded(shell: InteractiveShell, small: Path) -> None:
    run(shell, "from autograder import answer")
    assert "Write one of the letters A, B, C" in repr(run(shell, 'answer("lab2/why", "")'))
    missed = repr(run(shell, 'answer("lab2/why", "c")'))
    assert (
        missed
        == "**Not this one.** It tempts. Not for small tensors.\n\nRead [Lab two](#Lab-two) again and choose anew."
    )
    assert repr(run(shell, 'answer("lab2/why", "B")')) == "**Right.** No rank carries the others."
    assert progress.load(small).answers["lab2/why"] == progress.AnswerProgress("B", True, "CB")
    with pytest.raises(LabError, match=r"there is no question 'lab2/who'; the questions are lab2/why"):
        autograder.answer("lab2/who", "A")


def test_a_number_is_committed_before_it_is_revealed(shell: InteractiveShell, small: Path) -> None:
    run(shell, "from autograder import predict, reveal")
    assert "First commit a number" in repr(run(shell, 'reveal("lab2/n", 60.0)'))
    assert "Put a number of your own" in repr(run(shell, 'predict("lab2/n", None, "MB")'))
    run(shell, 'predict("lab2/n", 30, "MB")')
    assert "Committed: 20 MB" in repr(run(shell, 'predict("lab2/n", 20, "MB")'))
    said = repr(run(shell, 'reveal("lab2/n", 60.0)'))
    assert said == "You said 20 MB. It is **60 MB**: your number is 3 times too small."
    assert "You committed 20 MB before it was revealed; that stays." in repr(run(shell, 'predict("lab2/n", 60)'))
    assert progress.load(small).predictions["lab2/n"] == progress.Prediction(20.0, "MB", 60.0)
