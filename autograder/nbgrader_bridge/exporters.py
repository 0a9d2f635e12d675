"""How nbgrader reads submissions: its own way stops at a file that is no notebook."""

from __future__ import annotations

import warnings
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_notebook


class TolerantExporter(NotebookExporter):
    """Reads a submission that is no notebook as an empty one, so that it gets its 0 points and its page."""

    def from_file(self, file_stream: Any, resources: Any = None, **kw: Any) -> tuple[Any, Any]:
        """Like nbconvert's, except that an unreadable file counts as a notebook without cells."""
        import nbformat

        try:
            with warnings.catch_warnings():  # about cell ids that a copy repeats: Rebuild gives new ones
                warnings.simplefilter("ignore")
                notebook = nbformat.read(file_stream, as_version=4)
        except Exception:  # whatever a file can be: no JSON, no notebook, not UTF-8, nested too deep
            notebook = new_notebook()
        exported: tuple[Any, Any] = self.from_notebook_node(notebook, resources, **kw)  # type: ignore[no-untyped-call]
        return exported
