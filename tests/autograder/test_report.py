"""Pages hold what a student wrote as text only, and every picture has its text."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec

from autograder import report
from autograder.report import markdown
from autograder.results import CheckResult, Finding, NotebookResult, Part, to_json

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"

ALLOWED = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "h4", "p", "strong", "ul", "li"}
ALLOWED |= {"article", "dl", "dt", "dd", "figure", "h5", "em", "a"}
ALLOWED |= {"div", "table", "thead", "tbody", "tr", "th", "td", "section", "img", "details", "summary", "pre", "code"}


def result() -> CheckResult:
    finding = Finding(
        key="bytes",
        title=f"Too many bytes {EVIL}",
        text=f"On 3 ranks {EVIL}",
        expected=EVIL,
        seen=EVIL,
        case=EVIL,
        picture_svg=f"<svg xmlns='http://www.w3.org/2000/svg'>{EVIL}</svg>",
        picture_text=f"rank 0 {EVIL}",
        replay=f"lockstep check {EVIL}",
    )
    parts = [
        Part("value", "The sum", True, 2.0, 2.0),
        Part("bytes", "Few bytes", False, 0.0, 1.0),
        Part("hub", "No hub", False, 0.0, 1.0, "not looked at"),
    ]
    return CheckResult(
        exercise="lab2/ring-all-reduce",
        points=2.0,
        max_points=4.0,
        passed=False,
        parts=parts,
        findings=[finding],
        cases={"2": 7, "3": 8},
    )


class Tags(HTMLParser):
    """Collects tags with their attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_a_page_escapes_everything_and_loads_nothing() -> None:
    notes = [f"odd {EVIL}"]
    notebook = NotebookResult(
        lab="lab2", notebook="lab2.ipynb", exercises=[result()], notes=notes, points=2.0, max_points=4.0
    )
    page = report.page(notebook, f"ada {EVIL}")
    tags = parse(page)
    assert {tag for tag, _ in tags.tags} <= ALLOWED
    assert not [attrs for _, attrs in tags.tags if any(name.startswith("on") for name in attrs)]
    sources = [attrs["src"] or "" for tag, attrs in tags.tags if tag == "img"]
    assert [s.split(",")[0] for s in sources] == ["data:image/svg+xml;base64"]
    assert "http" not in page.replace("http-equiv", "")
    for said in (f"ada {EVIL}", f"odd {EVIL}", f"On 3 ranks {EVIL}", f"lockstep check {EVIL}"):
        assert said in tags.text
    assert "not passed, 2 of 4 points" in tags.text


def test_a_picture_comes_with_an_alternative_and_its_text() -> None:
    tags = parse(report.fragment(result(), note="A note.", hint_offer="Stuck?"))
    assert tags.text.index("A note.") < tags.text.index("not passed yet") < tags.text.index("Stuck?")
    [image] = [attrs for tag, attrs in tags.tags if tag == "img"]
    assert "Timeline of the ranks" in (image["alt"] or "")
    assert "details" in {tag for tag, _ in tags.tags}
    assert "rank 0 <script>" in tags.text
    assert "Stuck?" in tags.text


def test_a_graded_cell_shows_points_as_plain_text() -> None:
    bundle = report.cell_bundle(result())
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == "2.0"
    assert "Too many bytes" in bundle["text/html"]
    assert "not passed, 2 of 4 points" in bundle["text/html"]


def test_the_text_twin_says_the_same_without_colour() -> None:
    text = report.text(result())
    for said in ("not passed yet, 2 of 4 points", "✓ 2/2  The sum (passed)", "✗ 0/1  Few bytes (not passed)"):
        assert said in text
    assert "· 0/1  No hub (not looked at)" in text
    assert "7 on 2 ranks, 8 on 3 ranks" in text
    assert "rank 0" not in report.text(result(), pictures=False)


def test_a_stretch_exercise_earns_a_badge_and_no_grade() -> None:
    done = msgspec.structs.replace(result(), points=4.0, passed=True, findings=[], tier="stretch")
    assert report.cell_bundle(done)["text/plain"] == "0.0"
    assert "passed, 4 of 4 points (a badge, not part of the grade)" in report.text(done)
    both = NotebookResult(lab="lab2", notebook="n", exercises=[result(), done], notes=[], points=2.0, max_points=4.0)
    assert (
        "2 of 4 points; badges: 1 of 1 (stretch exercises, not part of the grade)" in parse(report.page(both, "a")).text
    )


def test_json_is_canonical() -> None:
    assert to_json(result()) == to_json(result())
    assert to_json(result()).startswith(b'{\n  "format": 1,\n  "exercise": "lab2/ring-all-reduce"')


def test_a_page_holds_hint_questions_and_what_was_opened_and_only_allowed_tags() -> None:
    one = result()
    finding = msgspec.structs.replace(
        one.findings[0], hint=f"Look **here**: `x < y`.\n\n```python\nif a < b: {EVIL}\n```"
    )
    one = msgspec.structs.replace(one, findings=[finding], exercise="lab2/one")
    both = NotebookResult(
        lab="lab2",
        notebook="lab2.ipynb",
        exercises=[one, msgspec.structs.replace(one, exercise="lab2/two")],
        notes=[],
        points=4,
        max_points=8,
        hints={"lab2/one": {"bytes": 2}},
        questions_asked=8,
        questions_right=5,
    )
    page = parse(report.page(both, "student"))
    assert {tag for tag, _ in page.tags} <= ALLOWED
    assert "5 of 8 answered right" in page.text
    assert "opened: bytes (2 of 4)." in page.text
    assert f"if a < b: {EVIL}" in page.text
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == ["#lab2/one", "#lab2/two"]
    assert {"lab2/one", "lab2/two"} <= {attributes.get("id") for _, attributes in page.tags}
    in_cell = parse(report.fragment(one))
    assert "Look here" not in in_cell.text  # hints of a notebook are opened with hint()


def test_the_markdown_of_hints_makes_nothing_but_its_few_tags() -> None:
    made = parse(markdown.html(f"- one\n- two `a`\n\n*so* **it** {EVIL} [a](javascript:x)"))
    assert [tag for tag, _ in made.tags] == ["ul", "li", "li", "code", "p", "em", "strong"]
    assert not any(attributes for _, attributes in made.tags)
    assert "[a](javascript:x)" in made.text
