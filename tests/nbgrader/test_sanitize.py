"""Markdown of a submission as HTML: text stays, whatever could run or load something does not."""

from __future__ import annotations

import pytest

from autograder.nbgrader_bridge.sanitize import markdown2html
from tests.nbgrader.dangers import dangers


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![tracker](http://tracker.example/a.png)",
        "<svg><script>alert(1)</script></svg>",
        '<div style="background:url(javascript:alert(1))">x</div>',
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "<scr<script>ipt>alert(1)</scr</script>ipt>",
        "$<script>alert(1)</script>$",
        "<!-- --!><script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x][y]\n\n[y]: javascript:alert(1)",
        "<javascript:alert(1)>",
    ],
)
def test_nothing_runs(source: str) -> None:
    assert dangers(markdown2html(source)) == []


def test_the_search_itself_finds_dangers() -> None:
    assert dangers("<script>1</script>") == ["<script>"]
    assert dangers("<p onclick=x>") == ["<p onclick=x>"]
    assert dangers("<a href=' java\nscript:x'>") != []
    assert dangers("<img src='http://a'>") != []


def test_ordinary_text_looks_as_written() -> None:
    html = markdown2html(
        "## Why\n\nSome **bold**, `a < b`, [a link](https://example.org)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    for piece in ("<h2", "<strong>bold</strong>", "a &lt; b", 'href="https://example.org"', "<td>1</td>"):
        assert piece in html


def test_formulas_are_pictures_with_their_tex() -> None:
    page = markdown2html("sends $2\\frac{W-1}{W} n$\n\n$$\\sum_r x_r < 3$$")
    assert page.count('src="data:image/png;base64,') == 2
    assert 'alt="2\\frac{W-1}{W} n"' in page
    assert 'alt="\\sum_r x_r &lt; 3"' in page
    assert dangers(page) == []
    assert page == markdown2html("sends $2\\frac{W-1}{W} n$\n\n$$\\sum_r x_r < 3$$")


@pytest.mark.parametrize(
    "source", ["costs $5 and $6", "`$x$`", "$\\unknowncommand{x}$", "$" + "{" * 300 + "$", "$" + "x" * 500 + "$"]
)
def test_what_is_no_formula_stays_text(source: str) -> None:
    assert "<img" not in markdown2html(source)
