"""The text twin of every result: the command line shows it, and so does whoever cannot see the HTML."""

from __future__ import annotations

import textwrap

from autograder.results import HELD, CheckResult, Finding, Part

WIDTH = 100
BADGE = " (a badge, not part of the grade)"
HINT_COST = "the last stage of a hint was opened"


def headline(result: CheckResult, *, graded: bool = False) -> str:
    """One line: passed or not, and the points. A ``graded`` result is final: there is no "yet"."""
    verdict = "passed" if result.passed else "not passed" if graded else "not passed yet"
    held = f", {result.held:g} held until a person has read the cell" if result.held else ""
    badge = BADGE if result.tier == "stretch" else ""
    return f"{result.exercise}: {verdict}, {result.points:g} of {result.max_points:g} points{badge}{held}"


def text(result: CheckResult, *, pictures: bool = True) -> str:
    """The whole result as plain text; ``pictures`` includes the timelines."""
    cost = [f"  - {result.hint_cost:g}    {HINT_COST}"] if result.hint_cost else []
    blocks = [headline(result), "\n".join([*(_part(part) for part in result.parts), *cost])]
    blocks += [_finding(f, pictures) for f in result.findings]
    if result.cases:
        blocks.append(cases_line(result))
    return "\n\n".join(blocks)


def verdict(part: Part) -> tuple[str, str]:
    """A mark and a word for a part: never colour or mark alone."""
    if part.passed:
        return "✓", "passed"
    if part.note.startswith(HELD):
        return "…", "held"
    return ("·", "not looked at") if part.note else ("✗", "not passed")


def cases_line(result: CheckResult) -> str:
    """How many cases ran on how many ranks."""
    counts = result.cases
    if set(counts) == {"1"}:  # a function that runs alone
        return f"Cases that ran: {counts['1']}."
    return "Cases that ran: " + ", ".join(f"{n} on {w} rank{'s' * (w != '1')}" for w, n in counts.items()) + "."


def _part(part: Part) -> str:
    mark, word = verdict(part)
    return f"  {mark} {part.points:g}/{part.max_points:g}  {part.title} ({part.note or word})"


def _finding(finding: Finding, pictures: bool) -> str:
    lines = [f"{finding.title}  [{finding.key}]"]
    lines += [
        textwrap.fill(line, WIDTH, break_on_hyphens=False) if len(line) > WIDTH else line
        for line in finding.text.splitlines()
    ]
    if finding.expected and finding.seen:
        lines.append(f"expected: {finding.expected}\nseen:     {finding.seen}")
    if pictures and finding.picture_text:
        lines.append(finding.picture_text.rstrip())
    if finding.replay:
        lines.append(f"run this case again: {finding.replay}")
    return "\n".join(lines)
