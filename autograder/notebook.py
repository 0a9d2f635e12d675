"""``check`` and ``hint`` in the notebook. They run what the grader runs and show what it would see.

The exercise cell is the one that was run last in this kernel (it has the ``# exercise:`` line or defines the exercise's
function), else the one in the saved notebook. The cell's text goes to a process of its own; nothing else of the kernel
does.
"""

from __future__ import annotations

import atexit
import os
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from autograder import course as course_file
from autograder import hints, lab_file, progress, record, report
from autograder.checks import names
from autograder.errors import NotebookFileError
from autograder.grading import CheckResult, JobHost, Params, check_exercise
from autograder.grading.extract import exercise_cells, exercise_line, read
from autograder.views import MarkdownView

_host: JobHost | None = None


class CheckView:
    """What ``check`` shows: HTML with a text twin. ``result`` holds the data."""

    def __init__(self, result: CheckResult, note: str, offer: str) -> None:
        self.result = result
        self._note, self._offer = note, offer

    def __repr__(self) -> str:
        return "\n\n".join(t for t in (self._note, report.text(self.result), self._offer) if t)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        html = report.fragment(self.result, note=self._note, hint_offer=self._offer)
        return {"text/plain": repr(self), "text/html": html}


class Interrupted:
    """What ``check`` shows when it was interrupted."""

    def __repr__(self) -> str:
        return "interrupted; nothing was recorded"


def check(exercise_id: str, *, fresh: bool = False) -> CheckView | Interrupted:
    """Check an exercise, for example ``check("lab2/ring-all-reduce")``. As often as you like.

    ``fresh`` draws new cases of the kinds that grading draws.
    """
    root = course_file.find_root()
    course = course_file.load(root)
    course.exercise(exercise_id)
    source, note = _find_cell(root, course, exercise_id)
    say, done = _progress_line()
    say("checking ...")
    try:
        params = Params(kind="fresh", seed=secrets.token_hex(4)) if fresh else Params()
        elsewhere = _unmarked(course.exercise(exercise_id).defines)
        host = _warm_host()
        result = check_exercise(source, exercise_id, params, host=host, progress=say, root=root, elsewhere=elsewhere)
    except KeyboardInterrupt:
        return Interrupted()
    finally:
        done()
    unsaved = progress.save(root, progress.load(root).after_check(result, source or ""))
    offer = "\n".join(text for text in (hint_offer(root, result), unsaved) if text)
    return CheckView(result, note, offer)


def hint(exercise_id: str, accept_cost: bool = False) -> MarkdownView:
    """Show the next hint for what the last check found. Its output also records in the notebook what was opened."""
    opened = open_hint(course_file.find_root(), exercise_id, time.time(), accept_cost)
    if opened.asks:
        call = f'hint("{exercise_id}", accept_cost=True)'
        return MarkdownView(f"{opened.text} To open it, run `{call}`.")
    if opened.progress is None:
        return MarkdownView(opened.text)
    cost = opened.progress.cost_points
    said = record.OpenedHint(exercise_id, opened.key, opened.stage, cost)
    return MarkdownView(opened.text, {record.MIME: msgspec.to_builtins(said)})


def open_hint(root: Path, exercise_id: str, now_s: float, accept_cost: bool = False) -> hints.Opened:
    """Decide on the next hint, and record that it was opened. ``now_s`` is the clock's time."""
    course = course_file.load(root)
    exercise = course.exercise(exercise_id)
    facts = lab_file.load(root, exercise.id.split("/")[0]).exercise(exercise.id)
    known = progress.load(root)
    done = known.of(exercise.id)
    if not done.checks:
        return hints.Opened(
            f'Nothing was checked yet. Run check("{exercise.id}") in the notebook, or '
            f"`lockstep check {exercise.id}` in a terminal: hints answer what a check found."
        )
    rules = course.grading.hints
    costs = 0.0
    if exercise.id.startswith(f"{hints.HOMEWORK}/"):
        costs = min(rules.homework_cost_points, max(0.0, rules.homework_cost_limit - known.hint_costs()))
    opened = hints.next_hint(facts.hints, done, now_s, rules.wait_minutes * 60, costs, accept_cost)
    if opened.progress is None:
        return opened
    unsaved = progress.save(root, known.with_exercise(exercise.id, done.with_hint(opened.key, opened.progress)))
    return msgspec.structs.replace(opened, text=f"{opened.text}\n\n{unsaved}") if unsaved else opened


def hint_offer(root: Path, result: CheckResult) -> str:
    """One sentence that says how to get a hint, if there is one for these findings."""
    known = lab_file.load(root, result.exercise.split("/")[0]).exercise(result.exercise).hints
    if any(finding.key in known for finding in result.findings):
        homework = result.exercise.startswith(f"{hints.HOMEWORK}/")
        cost = "Its last stage costs points and asks you first." if homework else "It costs nothing."
        return f'Stuck? hint("{result.exercise}") asks you a question about the first finding. {cost}'
    return ""


def _find_cell(root: Path, course: course_file.Course, exercise_id: str) -> tuple[str | None, str]:
    """The source of the exercise cell, and a note on what is odd about it (empty if it was run in this kernel).

    A cell that lost its first line and was run later than the one that has it is what the student works on: an older
    cell is never judged in its place.
    """
    exercise = course.exercise(exercise_id)
    for source in reversed(_history()):
        line = exercise_line(source)
        if line == exercise_id:
            return source, ""
        if line is None and names.defines(source, exercise.defines):
            return source, f"The cell lost its first line `# exercise: {exercise_id}`; put it back."
    lab = course.lab(exercise_id.split("/")[0])
    for path in _notebook_paths(root, lab.id):
        if path.is_file():
            try:
                found = exercise_cells(read(path), lab)
            except NotebookFileError:
                continue
            if exercise_id in found.cells:
                saved = "The exercise cell was not run in this kernel: this is about the saved notebook."
                notes = [f"Note: {note}." for note in found.notes if note.startswith(f"{exercise_id}: ")]
                return found.cells[exercise_id], " ".join([saved, *notes])
    return None, ""


def _unmarked(defines: Iterable[str]) -> str:
    """The last cell of this kernel that defines one of these names without an ``# exercise:`` line; "" if none does."""
    unmarked = (source for source in reversed(_history()) if exercise_line(source) is None)
    return next((source for source in unmarked if names.defines(source, defines)), "")


def _history() -> list[str]:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return []
    manager = getattr(get_ipython(), "history_manager", None)
    return [str(source) for source in manager.input_hist_raw] if manager else []


def _notebook_paths(root: Path, lab_id: str) -> list[Path]:
    """Where the notebook of this kernel may be: Jupyter says so in JPY_SESSION_NAME, else the lab's own place."""
    session = os.environ.get("JPY_SESSION_NAME", "")
    return [Path(p) for p in (session,) if p.endswith(".ipynb")] + [root / "labs" / lab_id / f"{lab_id}.ipynb"]


def _warm_host() -> JobHost:
    global _host
    if _host is None:
        _host = JobHost()
        atexit.register(_host.close)
    return _host


def _progress_line() -> tuple[Callable[[str], None], Callable[[], None]]:
    """A function that shows a line in place of the last one, and one that removes it; silent outside IPython."""
    if not _history():
        return (lambda text: None), (lambda: None)
    from IPython.display import clear_output, display

    def say(text: str) -> None:
        clear_output(wait=True)
        display({"text/plain": text}, raw=True)

    return say, lambda: clear_output(wait=True)
