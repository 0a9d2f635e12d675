"""One graded notebook as a self-contained HTML page."""

from __future__ import annotations

from html import escape

from autograder.hints import STAGES
from autograder.report.html import fragment
from autograder.results import CheckResult, NotebookResult, badges

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.25rem; }}
table.all {{ border-collapse: collapse; }}
table.all th, table.all td {{ padding: 0.15rem 0.8rem 0.15rem 0; text-align: left; }}
article {{ border-top: 1px solid #888; margin-top: 1.5rem; padding-top: 0.5rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p><strong>{points:g} of {max_points:g} points</strong>{badges}</p>
{summary}{notes}{exercises}{questions}
</main>
</body>
</html>
"""


def page(result: NotebookResult, student: str) -> str:
    """The page for one student: points, what was odd about the file, and the findings of every exercise."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    unread = result.why_unread
    exercises = [_exercise(result, exercise) for exercise in result.exercises]
    if unread:
        exercises = [f"<h2>{escape(unread.title)}</h2>\n<p>{escape(unread.text)}</p>"]
    return _PAGE.format(
        title=escape(f"{result.lab}: {student}"),
        points=result.points,
        max_points=result.max_points,
        badges=f"; {said}" if (said := badges(result.exercises)) else "",
        summary=_summary(result.exercises) if len(exercises) > 1 else "",
        notes=f"<h2>About the file</h2>\n<ul>{notes}</ul>\n" if notes else "",
        exercises="\n".join(exercises),
        questions=_questions(result),
    )


def _summary(exercises: list[CheckResult]) -> str:
    head = "<tr><th scope='col'></th><th scope='col'>exercise</th><th scope='col'>points</th></tr>"
    return f"<table class='all'><thead>{head}</thead><tbody>{''.join(map(_line, exercises))}</tbody></table>\n"


def _line(exercise: CheckResult) -> str:
    name, points = escape(exercise.exercise), f"{exercise.points:g} of {exercise.max_points:g}"
    points += " (badge)" if exercise.tier == "stretch" else ""
    mark = "✓ passed" if exercise.passed else "· not started" if exercise.is_untouched else "✗ not passed"
    mark = "… held" if exercise.held else mark
    return f"<tr><td>{mark}</td><td><a href='#{name}'>{name}</a></td><td>{points}</td></tr>"


def _exercise(result: NotebookResult, exercise: CheckResult) -> str:
    opened = result.hints.get(exercise.exercise, {})
    said = ", ".join(f"{key} ({stage} of {len(STAGES)})" for key, stage in sorted(opened.items()))
    hints = f"<p>Hints that the notebook shows as opened: {escape(said)}.</p>" if said else ""
    return f"<article id='{escape(exercise.exercise)}'>{fragment(exercise, graded=True)}{hints}</article>"


def _questions(result: NotebookResult) -> str:
    if not result.questions_asked:
        return ""
    said = f"{result.questions_right} of {result.questions_asked} answered right, not graded."
    return f"<h2>Checkpoint questions</h2>\n<p>{said}</p>"
