"""A result as HTML for a notebook cell. Styles use the colours of the page around, so that dark themes work."""

from __future__ import annotations

import base64
from html import escape

from autograder.report.text import cases_line, headline, verdict
from autograder.results import CheckResult, Finding, Part

STYLE = """<style>
.lockstep-result { font-family: sans-serif; line-height: 1.45; max-width: 60rem; }
.lockstep-result h3, .lockstep-result h4 { margin: 0.8rem 0 0.3rem; }
.lockstep-result table { border-collapse: collapse; }
.lockstep-result.lockstep-result tr th, .lockstep-result.lockstep-result tr td {
  padding: 0.15rem 0.8rem 0.15rem 0; text-align: left;
}
.lockstep-result section { border-left: 3px solid currentColor; padding-left: 0.8rem; margin: 1rem 0; }
.lockstep-result p { white-space: pre-line; margin: 0.3rem 0; }
.lockstep-result img { max-width: 100%; background: white; }
.lockstep-result pre { overflow-x: auto; }
</style>"""


def fragment(result: CheckResult, *, note: str = "", hint_offer: str = "", graded: bool = False) -> str:
    """The result as one <div>: ``note`` stands at its head, ``hint_offer`` at its end; ``graded`` results are final."""
    rows = "".join(_row(part) for part in result.parts)
    head = "<tr><th scope='col'></th><th scope='col'>graded part</th><th scope='col'>points</th></tr>"
    pieces = [
        f"<p><strong>{escape(note)}</strong></p>" if note else "",
        f"<h3>{escape(headline(result, graded=graded))}</h3>",
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>",
        *(_finding(finding) for finding in result.findings),
        f"<p>{escape(cases_line(result))}</p>" if result.cases else "",
        f"<p>{escape(hint_offer)}</p>" if hint_offer else "",
    ]
    return f'<div class="lockstep-result">{STYLE}{"".join(pieces)}</div>'


def cell_bundle(result: CheckResult) -> dict[str, str]:
    """The output of a graded cell: text/plain is the points and nothing else, text/html the findings."""
    return {"text/plain": repr(float(result.points)), "text/html": fragment(result, graded=True)}


def _row(part: Part) -> str:
    mark, word = verdict(part)
    why = part.note.removeprefix(word).removeprefix(": ")
    said = escape(part.title) + (f" ({escape(why)})" if why else "")
    points = f"{part.points:g} of {part.max_points:g}"
    return f"<tr><td>{mark} {word}</td><td>{said}</td><td>{points}</td></tr>"


def _finding(finding: Finding) -> str:
    pieces = [f"<h4>{escape(finding.title)}</h4>", f"<p>{escape(finding.text)}</p>"]
    if finding.expected and finding.seen:
        pieces.append(f"<p>expected: {escape(finding.expected)}\nseen: {escape(finding.seen)}</p>")
    if finding.picture_svg:
        pieces.append(_picture(finding.picture_svg, finding.title, finding.case))
    if finding.picture_text:
        pieces.append(
            f"<details><summary>The timeline as text</summary><pre>{escape(finding.picture_text)}</pre></details>"
        )
    if finding.replay:
        pieces.append(f"<p>Run this case again in a terminal: <code>{escape(finding.replay)}</code></p>")
    return f"<section>{''.join(pieces)}</section>"


def _picture(svg: str, title: str, case: str) -> str:
    """An <img>, not inline SVG: whatever is in it, an image runs nothing and loads nothing."""
    data = base64.b64encode(svg.encode()).decode()
    alt = escape(f"Timeline of the ranks, {case}: {title}. The same as text follows.", quote=True)
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}">'
