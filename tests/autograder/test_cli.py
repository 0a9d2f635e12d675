"""The command line: sentences for errors, exit codes 0, 1 and 2, and the same result as everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autograder import progress
from autograder.cli import cli, main
from tests.autograder.small import EXERCISE, RIGHT, cell
from tests.autograder.test_extract import notebook

NOTEBOOK = Path("labs/lab2/lab2.ipynb")


@pytest.fixture
def here(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small built course as the current folder."""
    monkeypatch.chdir(small)
    return small


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def shell(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a student runs it."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-m", "autograder.cli", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=100)


def test_help_lists_every_command_without_loading_any() -> None:
    code = (
        "import sys; from autograder.cli import cli; cli(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for command in ("build", "check", "grade", "hint", "status"):
        assert f"\n  {command} " in shown
    for module in ("torch", "numpy", "jupytext", "nbgrader", "matplotlib"):
        assert f"'{module}'" not in shown


def test_status_says_what_is_done_and_what_is_next(here: Path) -> None:
    first = call("status")
    assert first.exit_code == 0
    assert f"· not checked yet: {EXERCISE}" in first.output
    assert "lab3: Lab three (planned)" in first.output
    assert f"begin with labs/start.ipynb, 15 minutes; then\nnext: {EXERCISE}, in labs/lab2/lab2.ipynb" in first.output
    done = progress.ExerciseProgress(checks=2, ever_passed=True)
    progress.save(here, progress.Progress().with_exercise(EXERCISE, done))
    second = call("status")
    assert f"✓ passed: {EXERCISE}" in second.output
    assert "Everything that is here so far is done." in second.output
    assert "start.ipynb" not in second.output


def test_status_says_when_the_cell_changed_after_it_passed(here: Path) -> None:
    done = progress.ExerciseProgress(checks=2, ever_passed=True, passed=True, passed_cell=progress.digest(RIGHT))
    progress.save(here, progress.Progress().with_exercise(EXERCISE, done))
    NOTEBOOK.write_bytes(notebook((RIGHT, "ring-all-reduce")))
    assert f"✓ passed: {EXERCISE}" in call("status").output
    NOTEBOOK.write_bytes(notebook((cell("pass"), "ring-all-reduce")))
    assert f"passed earlier; the cell has changed since: {EXERCISE}" in call("status").output


def test_where_nothing_can_be_saved_the_verdict_is_shown_all_the_same(here: Path) -> None:
    (here / ".lockstep").write_text("in the way of the folder")
    checked = call("check", EXERCISE)
    assert checked.exit_code == 1
    shown = checked.output
    saved = here / progress.FILE
    assert shown.index("The cell is still the starter") < shown.index(f"Your progress cannot be saved in {saved}: ")


def test_build_check_exits_with_one_when_something_differs(here: Path) -> None:
    assert call("build").output == "nothing changed\n"
    assert call("build", "--check").exit_code == 0
    NOTEBOOK.write_text("edited")
    differing = call("build", "--check")
    assert differing.exit_code == 1
    assert "labs/lab2/lab2.ipynb differs from what its sources give" in differing.output
    assert NOTEBOOK.read_text() == "edited"
    refused = call("build")
    assert (refused.exit_code, "edited or run" in str(refused.exception)) == (1, True)
    assert call("build", "--force", "--nbgrader", "nb", "--reference", "ref").exit_code == 0
    assert NOTEBOOK.read_bytes() == Path("nb/lab2/lab2.ipynb").read_bytes()
    assert {p.name for p in Path("ref").iterdir()} == {"start.ipynb", "lab2.ipynb"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "lab2/tree"], f"there is no exercise 'lab2/tree'; the exercises are {EXERCISE}"),
        (
            ["check", EXERCISE, "--notebook", "gone.ipynb"],
            f"{os.sep}gone.ipynb cannot be read: No such file or directory. For",
        ),
        (
            ["check", EXERCISE, "--notebook", "course.yaml"],
            "course.yaml: the file is not a notebook: it is no valid JSON. For a fresh copy, move",
        ),
        (
            ["check", EXERCISE, "--notebook", "other.ipynb"],
            "other.ipynb: the file is a notebook of lab9, not of lab2. For a fresh copy, move",
        ),
        (["hint", "lab9/x"], "there is no exercise 'lab9/x'; the exercises are"),
        (["check", EXERCISE.split("/")[1][:-1]], f": did you mean {EXERCISE}?"),
    ],
)
def test_unusable_input_is_one_sentence_and_exit_code_two(
    arguments: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.ipynb").write_bytes(notebook(("# exercise: lab9/x\n", None)))
    with pytest.raises(SystemExit) as error:
        main(arguments)
    shown = capsys.readouterr()
    assert error.value.code == 2
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_checking_the_untouched_notebook_then_a_hint(here: Path) -> None:
    checked = call("check", EXERCISE)
    assert checked.exit_code == 1
    assert "The cell is still the starter" in checked.output
    assert f"`lockstep hint {EXERCISE}`" in checked.output
    assert "Hint 1 of 4 for the finding 'unfinished'" in call("hint", EXERCISE).output


def test_a_check_in_a_real_process(small: Path) -> None:
    (small / NOTEBOOK).write_bytes(notebook((RIGHT, "ring-all-reduce")))
    passed = shell(small, "check", EXERCISE)
    assert (passed.returncode, passed.stderr) == (0, "")
    assert "passed, 3 of 3 points" in passed.stdout
    assert progress.load(small).of(EXERCISE).ever_passed

    (small / NOTEBOOK).write_bytes(notebook((cell("dist.recv(tensor)"), "ring-all-reduce")))
    failed = shell(small, "check", EXERCISE, "--json", "--case", "world_size=2,length=1,dtype=int64")
    assert (failed.returncode, failed.stderr) == (1, "")
    assert [f["key"] for f in json.loads(failed.stdout)["findings"]] == ["deadlock"]
    assert progress.load(small).of(EXERCISE).checks == 1  # one case is not recorded


def test_an_interrupted_check_says_so_in_a_sentence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autograder.grading.check_exercise", interrupt)
    stopped = call("check", EXERCISE)
    assert (stopped.exit_code, stopped.output) == (
        1,
        "interrupted: the check was stopped with everything it had started\n",
    )
    assert progress.load(here).of(EXERCISE).checks == 0


def test_a_lab_is_checked_as_a_whole(here: Path) -> None:
    checked = call("check", "lab2")
    assert checked.exit_code == 1
    assert "The cell is still the starter" in checked.output
    assert "lab2: Lab two\n  ✗ 0 of 3" in checked.output


def test_options_that_do_not_go_together_are_said(here: Path) -> None:
    for arguments, said in (
        (("check", "lab2", "--case", "plain"), "--case goes with one exercise"),
        (("check", EXERCISE, "--seed", "x"), "--seed goes with --fresh"),
    ):
        assert said in str(call(*arguments).exception)


def test_fresh_cases_can_be_drawn_again(here: Path) -> None:
    assert "the same again: --fresh --seed abc" in call("check", EXERCISE, "--fresh", "--seed", "abc").output


def test_validate_says_what_a_lab_lacks(here: Path) -> None:
    said = call("validate", "--quick")
    assert said.exit_code == 1
    assert f"✗ {EXERCISE} has 0 mutants, an exercise needs 4" in said.output
    assert f"✗ {EXERCISE}: no mutant is meant for the finding bytes" in said.output
    assert "lab2: 9 problems (no check was run)" in said.output
    notebook = json.loads(NOTEBOOK.read_text())
    notebook["cells"][0]["source"] = ["    secret = 41 + the + answer + to + everything\n"]
    NOTEBOOK.write_text(json.dumps(notebook))
    assert "differs from what its sources give" in call("validate", "--quick").output


def test_commands_of_authors_say_so_where_there_are_no_sources(here: Path) -> None:
    shutil.rmtree("solutions")
    for command in ("mutants", "validate"):
        assert "for authors of the course" in str(call(command).exception)


def test_a_mistyped_command_is_asked_about() -> None:
    assert "There is no command 'chek': did you mean check?" in call("chek", EXERCISE).output
    assert "No such command 'xyz'" in call("xyz").output
