"""Grading a folder of submissions: one line each, resumable, and one broken submission never stops the others.

For each submission: bring it into submitted/, seal its result, enter the result into the gradebook, write its report.
A submission whose seal is fresh and whose points are in the gradebook already is left alone, so that an interrupted
grading continues where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from autograder import report
from autograder.errors import LabError
from autograder.grading.extract import needs_look
from autograder.nbgrader_bridge import acceptance, seal, terminal, workers
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.nbgrader_bridge.intake import Submission
from autograder.nbgrader_bridge.pipeline import Pipeline
from autograder.nbgrader_bridge.regrades import Regrade
from autograder.nbgrader_bridge.workers import Done, Sealing
from autograder.results import HELD, NotebookResult, Part

Say = Callable[[str, bool], None]  # text, end of line


@dataclass(frozen=True)
class Row:
    """What became of one submission. `result` is None without a seal.

    `problem` is why somebody should look ("" when all went well), `notes` is what was odd about the file, and `failed`
    says that there are no points which the submission deserves: it has to be graded again.
    """

    student: str
    result: NotebookResult | None
    new: bool
    problem: str = ""
    notes: tuple[str, ...] = ()
    failed: bool = False
    change: Regrade | None = None

    def looks(self, course: str) -> list[str]:
        """Everything that a person should look at. `course`: what commands for this course folder need, if anything."""
        held = acceptance.waits(self.result, self.student, course) if self.result else []
        return [
            *(terminal.one_line(text) for text in (str(self.change or ""), self.problem, *self.notes) if text),
            *held,
        ]

    @property
    def name(self) -> str:
        """The student, as it is printed."""
        return terminal.name(self.student)


def grade_all(sealing: Sealing, pipeline: Pipeline, submissions: list[Submission], say: Say) -> Iterator[Row]:
    """Grades the submissions in order; yields a row as soon as its submission is done.

    Args:
        say: called with each piece of a progress line, and whether the line ends.
    """
    width = max(len(terminal.name(submission.student)) for submission in submissions)
    with workers.sealed(sealing, submissions) as futures:
        for number, (submission, future) in enumerate(zip(submissions, futures, strict=True), start=1):
            name = terminal.name(submission.student)
            say(f"{number:>{len(str(len(submissions)))}}/{len(submissions)}  {name:<{width}}  ", False)
            try:
                row = _enter(sealing, pipeline, submission, future)
            except LabError as error:
                notes = (submission.problem, *submission.notes)
                row = Row(submission.student, None, new=True, problem=str(error), notes=notes, failed=True)
            say(_line(row), True)
            yield row


def _enter(sealing: Sealing, pipeline: Pipeline, submission: Submission, future: Future[Done]) -> Row:
    """Wait for a submission's seal and bring it into the gradebook."""
    folder, student, assignment = sealing.folder, submission.student, sealing.assignment
    sealed, change = future.result()
    before = "" if sealing.again else _entered(folder, student, assignment)
    _write_report(folder, sealed)
    digest = seal.file_digest(folder, student, assignment)
    problem = submission.problem or seal.reason(sealed)
    notes = (*submission.notes, *(note for note in sealed.result.notes if needs_look(note)))
    if before == digest:
        return Row(student, sealed.result, False, problem, notes, sealed.broken, change)
    try:
        pipeline.autograde(assignment, student)
    except LabError as error:
        return Row(student, sealed.result, True, str(error), notes, failed=True, change=change)
    return Row(student, sealed.result, True, problem, notes, sealed.broken, change)


def _entered(folder: CourseFolder, student: str, assignment: str) -> str:
    """SHA-256 of the seal whose points are in the gradebook; "" if none are, or if the time of the hand-in changed."""
    import nbformat

    from autograder.nbgrader_bridge.preprocessors import OURS

    try:
        if _time(folder.autograded(student, assignment)) != _time(folder.submitted(student, assignment)):
            return ""
        graded = nbformat.read(folder.autograded(student, assignment) / f"{assignment}.ipynb", as_version=4)
    except (OSError, ValueError):
        return ""
    return str(graded.metadata.get(OURS, {}).get("seal", ""))


def _time(place: Path) -> str:
    path = place / "timestamp.txt"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _write_report(folder: CourseFolder, sealed: seal.Seal) -> None:
    path = folder.report(sealed.student, sealed.assignment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.page(sealed.result, sealed.student), encoding="utf-8")


def _line(row: Row) -> str:
    if row.result is None:
        return "not graded, see below"
    badges = _badge_points(row.result)
    points = f"{row.result.points:g} / {row.result.max_points:g}" + (f" + {badges:g} badge points" if badges else "")
    said = terminal.one_line(row.problem or _missed(row.result))
    return f"{'not graded' if row.failed else points:>9}  {'' if row.new else '(unchanged) '}{said}".rstrip()


def _badge_points(result: NotebookResult) -> float:
    return sum(exercise.points for exercise in result.exercises if exercise.tier == "stretch")


def _missed(result: NotebookResult) -> str:
    """Exercises with the parts that failed; where nothing passed, what was seen first in a started one says more."""
    findings = [finding for exercise in result.exercises for finding in exercise.findings]
    if findings and not any(exercise.held or exercise.points for exercise in result.exercises):
        return next((f for f in findings if f.key != "unfinished"), findings[0]).title
    fresh = [e for e in result.exercises if e.is_untouched]
    lost = {e.exercise: [p.key for p in e.parts if _is_missed(p)] for e in result.exercises if e not in fresh}
    said = [f"{exercise.split('/')[1]} ({', '.join(keys)})" for exercise, keys in lost.items() if keys]
    missed = [f"{held:g} {kind} held" for kind, held in _held(result).items() if held]
    missed += ["missed: " + ", ".join(said)] if said else []
    return "; ".join([*missed, *([f"not started: {len(fresh)} of {len(result.exercises)}"] if fresh else [])])


def _held(result: NotebookResult) -> dict[str, float]:
    """Points that wait for a person, those of badges apart."""
    kinds = {"points": "core", "badge points": "stretch"}
    return {kind: sum(e.held for e in result.exercises if e.tier == tier) for kind, tier in kinds.items()}


def _is_missed(part: Part) -> bool:
    """Whether a part is lost; one that is held is not."""
    return not part.passed and not part.note.startswith(HELD)


def summary(rows: list[Row], assignment: str, course: str = "", not_taken: Iterable[str] = ()) -> Iterable[str]:
    """The lines that stand below a grading: how many, how good, which parts were missed, what went wrong."""
    graded = [row for row in rows if not row.failed]
    results = [row.result for row in graded if row.result]
    looks = [*(f"{row.name}: {text}" for row in rows for text in row.looks(course)), *not_taken]
    now = sum(row.new for row in graded)
    lowered = [row for row in rows if row.change and row.change.now < row.change.before]
    if lowered:
        yield f"LOWER THAN BEFORE: {', '.join(row.name for row in lowered)}; the reasons stand below"
    yield f"{plural(len(rows), 'submission')} of {assignment}: {now} graded now, {len(graded) - now} unchanged, " + (
        f"{len(rows) - len(graded)} not graded"
    )
    if results:
        points = [result.points for result in results]
        yield (
            f"points out of {results[0].max_points:g}: mean {mean(points):.3g}, median {median(points):g}, "
            f"lowest {min(points):g}, highest {max(points):g}"
        )
        unread = [row.name for row in graded if row.result and row.result.why_unread]
        if unread:
            yield f"0 points unread, the reasons stand below: {', '.join(unread)}"
        yield from _parts([result for result in results if not result.why_unread])
    if looks:
        yield "needs a look:"
        yield from (f"  {text}" for text in looks)


def plural(count: int, noun: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _parts(results: list[NotebookResult]) -> Iterable[str]:
    """A line an exercise, and below it the parts that were missed by those who had begun it."""
    if not results:
        return
    width = max(len(exercise.exercise) for exercise in results[0].exercises)
    for all_of_one in zip(*(result.exercises for result in results), strict=True):
        begun = [one for one in all_of_one if not one.is_untouched]
        passed = sum(one.passed for one in begun)
        untouched = f", not started by {len(all_of_one) - len(begun)}" if len(begun) < len(all_of_one) else ""
        yield f"  {all_of_one[0].exercise:<{width}}  passed by {passed} of {len(all_of_one)}{untouched}"
        missed = Counter(part.title for one in begun for part in one.parts if _is_missed(part))
        yield from (f"    {title}: missed by {count}" for title, count in missed.items())
