"""One graded notebook as a self-contained HTML page."""

from __future__ import annotations

from html import escape

from autograder.report.html import fragment
from autograder.results import NotebookResult

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font-family: sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p><strong>{points:g} of {max_points:g} points</strong></p>
{notes}{exercises}
</main>
</body>
</html>
"""


def page(result: NotebookResult, student: str) -> str:
    """The page for one student: points, what was odd about the file, and the findings of every exercise."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return _PAGE.format(
        title=escape(f"{result.lab}: {student}"),
        points=result.points,
        max_points=result.max_points,
        notes=f"<h2>About the file</h2>\n<ul>{notes}</ul>\n" if notes else "",
        exercises="\n".join(fragment(exercise, graded=True) for exercise in result.exercises),
    )
