"""A result as HTML for a notebook cell. Styles use the colours and the size of letters of the page around: dark themes
work, and so does nbgrader's formgrader, where a rem is 10 pixels and images have red borders.
"""

from __future__ import annotations

import base64
from html import escape

from autograder.report import markdown
from autograder.report.text import HINT_COST, cases_line, headline, verdict
from autograder.results import CheckResult, Finding, Part

STYLE = """<style>
.lockstep-result { font-family: system-ui, sans-serif; line-height: 1.5; max-width: 60em; }
.lockstep-result h3 { margin: 0.8em 0 0.3em; font-size: 1.2em; }
.lockstep-result h4 { margin: 0 0 0.3em; font-size: 1.05em; }
.lockstep-result h5 { margin: 0 0 0.2em; font-size: 1em; }
.lockstep-result table { border-collapse: collapse; }
.lockstep-result.lockstep-result tr th, .lockstep-result.lockstep-result tr td {
  padding: 0.15em 0.8em 0.15em 0; text-align: left; vertical-align: top;
}
.lockstep-result tr td:first-child, .lockstep-result tr td:last-child { white-space: nowrap; }
.lockstep-result summary { display: list-item; cursor: pointer; }
.lockstep-result section { border-left: 3px solid currentColor; padding-left: 0.8em; margin: 1.2em 0; }
.lockstep-result p { white-space: pre-line; margin: 0.3em 0; }
.lockstep-result dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1em 0.8em; margin: 0.4em 0; }
.lockstep-result.lockstep-result dl dt { font-weight: 600; float: none; width: auto; white-space: nowrap; }
.lockstep-result dd { margin: 0; overflow-wrap: anywhere; }
.lockstep-result code, .lockstep-result pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
.lockstep-result figure { margin: 0.6em 0; }
.lockstep-result.lockstep-result img { max-width: 100%; background: white; border: 0 !important; }
.lockstep-result pre { overflow-x: auto; }
.lockstep-result .hint {
  border: 1px dashed currentColor; border-radius: 6px; padding: 0.5em 0.8em; margin: 0.6em 0;
}
</style>"""


def fragment(result: CheckResult, *, note: str = "", hint_offer: str = "", graded: bool = False) -> str:
    """The result as one <div>: ``note`` stands at its head, ``hint_offer`` at its end; ``graded`` results are final."""
    rows = "".join(_row(part) for part in result.parts) + _hint_row(result)
    head = "<tr><th scope='col'></th><th scope='col'>graded part</th><th scope='col'>points</th></tr>"
    pieces = [
        f"<p><strong>{escape(note)}</strong></p>" if note else "",
        f"<h3>{escape(headline(result, graded=graded))}</h3>",
        "" if graded and result.is_untouched else f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>",
        *(_finding(finding, graded) for finding in result.findings),
        f"<p>{escape(cases_line(result))}</p>" if result.cases else "",
        f"<p>{escape(hint_offer)}</p>" if hint_offer else "",
    ]
    return f'<div class="lockstep-result">{STYLE}{"".join(pieces)}</div>'


def cell_bundle(result: CheckResult) -> dict[str, str]:
    """The output of a graded cell: text/plain is the points that count and nothing else, text/html the findings."""
    return {"text/plain": repr(float(result.grade)), "text/html": fragment(result, graded=True)}


def _row(part: Part) -> str:
    mark, word = verdict(part)
    why = part.note.removeprefix(word).removeprefix(": ")
    said = escape(part.title) + (f" ({escape(why)})" if why else "")
    points = f"{part.points:g} of {part.max_points:g}"
    return f"<tr><td>{mark} {word}</td><td>{said}</td><td>{points}</td></tr>"


def _hint_row(result: CheckResult) -> str:
    if not result.hint_cost:
        return ""
    return f"<tr><td>- hints</td><td>{HINT_COST}</td><td>-{result.hint_cost:g}</td></tr>"


def _finding(finding: Finding, graded: bool) -> str:
    pieces = [f"<h4>{escape(finding.title)}</h4>", f"<p>{escape(finding.text)}</p>"]
    facts = [*_where(finding)]
    if finding.expected and finding.seen:
        facts += [
            ("expected", f"<code>{escape(finding.expected)}</code>"),
            ("seen", f"<code>{escape(finding.seen)}</code>"),
        ]
    if finding.replay:
        facts.append(("again, in a terminal", f"<code>{escape(finding.replay)}</code>"))
    pieces.append("".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts))
    pieces[-1] = f"<dl>{pieces[-1]}</dl>" if facts else ""
    if finding.picture_svg:
        pieces.append(_picture(finding))
    if finding.hint and graded:
        pieces.append(f'<div class="hint"><h5>A hint for this finding</h5>{markdown.html(finding.hint)}</div>')
    return f"<section>{''.join(pieces)}</section>"


def _where(finding: Finding) -> list[tuple[str, str]]:
    """Rank and step, as far as they are known; the text before names ranks and case."""
    said = ["" if finding.rank is None or finding.world_size == 1 else f"rank {finding.rank}"]
    said += ["" if finding.step is None else f"step {finding.step}"]
    text = ", ".join(part for part in said if part)
    return [("where", escape(text))] if text else []


def _picture(finding: Finding) -> str:
    """An <img>, not inline SVG: whatever is in it, an image runs nothing and loads nothing. Its text follows."""
    data = base64.b64encode((finding.picture_svg or "").encode()).decode()
    alt = escape(f"Timeline of the ranks, {finding.case}: {finding.title}. The same as text follows.", quote=True)
    text = f"<pre>{escape(finding.picture_text)}</pre>" if finding.picture_text else ""
    details = f"<details><summary>The timeline as text</summary>{text}</details>" if text else ""
    return f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{alt}">{details}</figure>'
