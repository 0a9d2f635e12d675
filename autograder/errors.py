"""Errors that a person can act on: one tree, one sentence each, shown without a traceback."""

from __future__ import annotations


class LabError(Exception):
    """Something that a student, author or instructor can put right. The text is shown as it is."""

    def _render_traceback_(self) -> list[str]:
        """IPython shows these lines in place of a traceback."""
        return [str(self)]


class CourseFileError(LabError):
    """course.yaml, a hints file or a generated course file does not say what it must."""


class SolutionMarkerError(LabError):
    """A solutions file cannot be built. ``problems`` lists every reason as ``file:line: sentence``."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"nothing was written, {many}:\n  " + "\n  ".join(problems))


class NotebookFileError(LabError):
    """A notebook file is missing, is no notebook, or cannot be read."""


class UnknownExerciseError(LabError):
    """An exercise or lab id that course.yaml does not know."""


class CheckJobError(LabError):
    """The process that runs a check broke. This is our fault, never the student's."""


class SandboxError(LabError):
    """The sandbox in which graded code runs cannot be used on this machine, or did not start."""
