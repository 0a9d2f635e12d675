"""nbgrader's own steps for one course folder, in this process: what `nbgrader STEP` does, with errors in plain words.

fetch and submit are the student's steps; they are here for courses on one machine and for trying a course out.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import re
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from autograder.nbgrader_bridge import config, terminal
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder, check_student_name

COLUMNS = ("assignment", "student", "cell", "auto_score", "manual_score", "score", "max_score", "needs_manual_grade")

_CLASS = re.compile(r"^[\w.]*(Error|Exception): ")  # the name of an exception's class before its message


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides SQLAlchemy's warnings about nbgrader's own queries: nobody who grades can act on them."""
    from sqlalchemy.exc import SAWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=SAWarning)
        warnings.simplefilter("ignore", category=DeprecationWarning)
        yield


@contextlib.contextmanager
def _engines_from(create: Any) -> Iterator[None]:
    """Let nbgrader take SQLAlchemy's engines from `create`.

    It opens the gradebook some nine times a submission, and a new engine compiles every statement again.
    """
    from nbgrader import api

    honest = api.create_engine
    api.create_engine = create
    try:
        yield
    finally:
        api.create_engine = honest


class Pipeline:
    """The steps of one course folder.

    Raises:
        BridgeError: from every step that fails, with nbgrader's reason.
    """

    def __init__(self, folder: CourseFolder) -> None:
        from nbgrader.apps import NbGraderAPI
        from sqlalchemy import create_engine

        self._create_engine = functools.cache(create_engine)  # one engine for a gradebook
        self.folder = folder
        self._config = config.load(folder)
        with _quiet():
            self._api = NbGraderAPI(config=self._config, log_level="ERROR")

    def generate(self, assignment: str) -> None:
        """Makes the student version from source/ASSIGNMENT and enters the assignment into the gradebook."""
        self._step(f"{assignment} cannot be generated", self._api.generate_assignment, assignment)

    def release(self, assignment: str) -> None:
        """Puts the student version into the exchange; a release that is there already is left alone and said."""
        settings = self._config
        place = Path(settings.Exchange.root) / settings.CourseDirectory.course_id / "outbound" / assignment
        if place.is_dir():
            raise BridgeError(f"{assignment} is released already, in {place}. To release it anew, remove that folder.")
        self._step(f"{assignment} cannot be released", self._api.release_assignment, assignment)

    def fetch(self, assignment: str, student: str, into: Path) -> Path:
        """Copies a released assignment to `into`/ASSIGNMENT for `student`; returns that folder."""
        self._student_step("FetchAssignment", assignment, student, into)
        return into / assignment

    def submit(self, assignment: str, student: str, home: Path) -> None:
        """Hands in `home`/ASSIGNMENT for `student`."""
        self._student_step("Submit", assignment, student, home)

    def fetch_feedback(self, assignment: str, student: str, into: Path) -> Path:
        """Copies the released feedback of `student` to `into`/ASSIGNMENT/feedback; returns that folder."""
        self._student_step("FetchFeedback", assignment, student, into)
        return into / assignment / "feedback"

    def collect(self, assignment: str) -> None:
        """Brings what was handed in through the exchange into submitted/; newer submissions replace older ones."""
        self._step(f"{assignment} cannot be collected", self._api.collect, assignment)

    def autograde(self, assignment: str, student: str) -> None:
        """Enters the sealed result of one submission into the gradebook."""
        self._step(f"{student}/{assignment} cannot be entered", self._api.autograde, assignment, student)

    def feedback(self, assignment: str, student: str | None = None) -> None:
        """Writes the feedback page of one student, or of all."""
        self._step(f"No feedback for {assignment}", self._api.generate_feedback, assignment, student)

    def release_feedback(self, assignment: str) -> int:
        """Puts the feedback of everyone who handed in through the exchange back into it; returns how many."""
        secrets = sorted(self.folder.root.glob(f"feedback/*/{assignment}/submission_secret.txt"))
        for secret in secrets:
            student = secret.parent.parent.name
            self._step(f"{student}: feedback cannot be released", self._api.release_feedback, assignment, student)
        return len(secrets)

    def scores(self, assignment: str) -> list[dict[str, Any]]:
        """One row for each graded cell of each submission in the gradebook, with the keys of COLUMNS."""
        from nbgrader.api import MissingEntry

        with _quiet(), self._api.gradebook as gradebook:
            try:
                submissions = gradebook.assignment_submissions(assignment)
            except MissingEntry as error:
                raise BridgeError(f"{assignment} is not in the gradebook. Run `lockstep nbgrader generate`.") from error
            return [
                dict(zip(COLUMNS, _row(assignment, submission, grade), strict=True))
                for submission in sorted(submissions, key=lambda s: s.student_id)
                for notebook in submission.notebooks
                for grade in notebook.grades
            ]

    def export(self, assignment: str, to: Path) -> int:
        """Writes `scores` as CSV to `to`; returns the number of rows."""
        rows = self.scores(assignment)
        with to.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        return len(rows)

    def _step(self, what: str, step: Any, *args: Any) -> None:
        with _quiet(), _engines_from(self._create_engine):
            outcome = step(*args)
        if outcome["success"]:
            return
        error = str(outcome.get("error", ""))
        # nbgrader catches everything, Ctrl-C too.
        if error.rstrip().endswith("KeyboardInterrupt"):
            raise KeyboardInterrupt
        raise BridgeError(f"{what}: {_reason(str(outcome.get('log', '')), error)}")

    def _student_step(self, step: str, assignment: str, student: str, home: Path) -> None:
        from nbgrader.auth import Authenticator
        from nbgrader.coursedir import CourseDirectory
        from nbgrader.exchange import ExchangeError, ExchangeFactory

        check_student_name(student)
        mine = deepcopy(self._config)
        mine.CourseDirectory.student_id, mine.CourseDirectory.assignment_id = student, assignment
        mine.Exchange.assignment_dir = str(home.resolve())
        # nbgrader remembers submissions per account; several students share this one.
        mine.Exchange.cache = str(home.resolve() / ".nbgrader_cache")
        action = getattr(ExchangeFactory(config=mine), step)(
            coursedir=CourseDirectory(config=mine), authenticator=Authenticator(config=mine), config=mine
        )
        try:
            with _quiet():
                action.start()
        except (ExchangeError, OSError, RuntimeError) as error:
            raise BridgeError(f"{student}/{assignment}: {error}") from error


def _row(assignment: str, submission: Any, grade: Any) -> tuple[Any, ...]:
    return (
        assignment,
        submission.student_id,
        grade.name,
        grade.auto_score,
        grade.manual_score,
        grade.score,
        grade.max_score,
        grade.needs_manual_grade,
    )


def _reason(log: str, error: str) -> str:
    """The line of nbgrader's log or traceback that says what went wrong."""
    lines = [line for line in (log + "\n" + error).splitlines() if line.strip()]
    ours = [line for line in lines if "BridgeError: " in line or "StaleSeal: " in line]
    if ours:
        return ours[0].split(": ", 1)[1]
    return terminal.one_line(_CLASS.sub("", lines[-1].strip())) if lines else "nbgrader gives no reason"
