"""nbgrader preprocessors: rebuild a submission in the released frame, and fill check cells from the sealed result.

They stand in `Autograde.sanitize_preprocessors` and `Autograde.autograde_preprocessors`; the second replaces nbgrader's
Execute. No code of a submission runs in this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output
from traitlets import Bool, Enum, Unicode

from autograder import report
from autograder.grading.host import JobHost
from autograder.nbgrader_bridge import seal
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.nbgrader_bridge.rebuild import rebuild
from autograder.results import CheckResult

OURS = "lockstep"  # notebook metadata: {"seal": SHA-256 of the sealed file whose points stand here, "notes": [...]}


def _folder(resources: dict[str, Any], seed_file: str = "") -> CourseFolder:
    # The gradebook lies in the course folder: nbgrader hands its address to every preprocessor.
    database = resources["nbgrader"]["db_url"].removeprefix("sqlite:///")
    return CourseFolder.at(Path(database).parent, seed_file or None)


class Rebuild(Preprocessor):
    """First of the sanitizing preprocessors: the submission's text in the released notebook's frame."""

    enabled = Bool(True).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Returns the rebuilt notebook; see `rebuild`."""
        names = resources["nbgrader"]
        template = _folder(resources).released(names["assignment"]) / f"{names['assignment']}.ipynb"
        return rebuild(nbformat.read(template, as_version=4), nb), resources


class SealedResults(Preprocessor):
    """In place of Execute: each check cell gets points and findings from the sealed result as its only output."""

    enabled = Bool(True).tag(config=True)
    seed_file = Unicode("", help="The grading seed, when it is not in the course folder.").tag(config=True)
    isolation = Enum(("bubblewrap", "limits"), "bubblewrap", help="What is around a submission's code.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Fills the check cells. A submission without a fresh seal (formgrader's button) is graded now."""
        names = resources["nbgrader"]
        folder = _folder(resources, self.seed_file)
        with JobHost(
            "limits" if self.isolation == "limits" else "bubblewrap"
        ) as host:  # starts nothing while the seal is fresh
            sealed, _ = seal.ensure(folder, names["student"], names["assignment"], host)
        results = {result.exercise.split("/", 1)[1]: result for result in sealed.result.exercises}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                if cell.metadata.get("nbgrader", {}).get("grade") and not cell.metadata.nbgrader.get("solution"):
                    _fill(cell, results)
        digest = seal.file_digest(folder, names["student"], names["assignment"])
        nb.metadata[OURS] = {"seal": digest, "notes": sealed.result.notes}
        return nb, resources


def _fill(cell: NotebookNode, results: dict[str, CheckResult]) -> None:
    name = cell.metadata.nbgrader.grade_id
    result = results.get(name.removeprefix("check-"))
    if result is None or float(cell.metadata.nbgrader.points) != result.max_grade:
        raise BridgeError(
            f"The check cell {name!r} of the released notebook does not agree with course.yaml. "
            "Run `lockstep nbgrader generate` again."
        )
    cell.outputs = [new_output("execute_result", data=report.cell_bundle(result))]
