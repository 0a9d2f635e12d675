"""Results for people: text, an HTML fragment for a cell, and a self-contained page for a whole notebook.

Nothing in a page runs: no script, no link to elsewhere, every string escaped, pictures as inert images with their text.
"""

from __future__ import annotations

from autograder.report.html import cell_bundle, fragment
from autograder.report.page import page
from autograder.report.text import text

__all__ = ["cell_bundle", "fragment", "page", "text"]
