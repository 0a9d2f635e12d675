"""How nbgrader reads submissions: its own way stops at a file that is no valid notebook."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode

from autograder.errors import LabError
from autograder.grading.extract import MAX_BYTES, without_outputs
from autograder.nbgrader_bridge.rebuild import salvage

_SLIM_FROM = 5_000_000  # characters
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


class TolerantExporter(NotebookExporter):
    """Reads what can be read of a damaged submission, so that it gets its points and its page too."""

    def from_file(self, file_stream: Any, resources: Any = None, **kw: Any) -> tuple[Any, Any]:
        """Like nbconvert's, except that no file is refused: what is no notebook counts as one without cells."""
        exported: tuple[Any, Any] = self.from_notebook_node(_read(file_stream), resources, **kw)  # type: ignore[no-untyped-call]
        return exported


def _read(file_stream: Any) -> NotebookNode:
    try:
        text = file_stream.read(MAX_BYTES + 1)
        # The outputs are dropped anyway; nbformat would build all of them first, and keep halves of characters.
        if len(text) > _SLIM_FROM or _SURROGATE.search(text):
            return salvage(without_outputs(text.encode()) if len(text) <= MAX_BYTES else None)
    except (UnicodeError, LabError):  # the grader does not read it either
        return salvage(None)
    try:
        with warnings.catch_warnings():  # about cell ids that a copy repeats: Rebuild gives new ones
            warnings.simplefilter("ignore")
            notebook: NotebookNode = nbformat.reads(text, as_version=4)
            nbformat.validate(notebook)
        return notebook
    except Exception:  # nbformat raises whatever the damage leads to
        return salvage(_json(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
