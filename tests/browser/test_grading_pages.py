"""What people open after grading, in Chromium: formgrader and the feedback page of a hostile notebook.

Nothing of it may run, nothing may be asked of another machine, and formulas must be there without a network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook
from playwright.sync_api import BrowserContext, Dialog, Page, Request

from autograder.nbgrader_bridge import commands
from tests.browser.jupyter import Server, serve
from tests.nbgrader import notebooks
from tests.nbgrader.notebooks import LAB, SCRIPT
from tests.needs import needs_bubblewrap, needs_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.nbgrader,
    needs_chromium,
    needs_bubblewrap,
    pytest.mark.timeout(600),
]

_WITHIN_MS = 120_000
FORMULA = r"Each rank sends $2\frac{W-1}{W} n$ numbers and"
BLOCK = r"$$\sum_{r=0}^{W-1} x_r$$"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course folder with one hostile and one wrong submission, graded, with feedback."""
    place = tmp_path_factory.mktemp("grading")
    hostile = notebooks.hostile()
    words = f"{FORMULA} {SCRIPT}\n\n{BLOCK}\n\n<img src=http://elsewhere.example/x.png onerror=alert(2)>"
    answer = {"cell_type": "markdown", "id": "w", "metadata": {}, "source": words}
    hostile["cells"].append(answer)
    notebooks.write(place / "in" / "hal.ipynb", hostile)
    notebooks.write(place / "in" / "wim.ipynb", notebooks.mutant("hub"))
    for words in (["grade", str(place / "in")], ["nbgrader", "feedback"]):
        command = getattr(commands, words[0])
        result = CliRunner().invoke(command, [*words[1:], "--course", str(place / "course")])
        assert result.exit_code == 0, (result.output, result.exception)
    return place / "course"


@pytest.fixture(scope="module")
def grading_server(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Jupyter with nbgrader's extensions, in the course folder."""
    with serve(course, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A page on which no dialog may open and from which no request may leave this machine."""
    opened = browser.new_page()
    dialogs: list[str] = []
    outside: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    def saw(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "http://localhost:", "file:", "data:", "blob:")):
            outside.append(request.url)

    opened.on("dialog", dismiss)
    opened.on("request", saw)
    yield opened
    opened.close()
    assert dialogs == []
    assert outside == []


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Page, str], None]:
    """Save what the page shows: in LOCKSTEP_SCREENSHOTS if that is set."""
    folder = Path(os.environ.get("LOCKSTEP_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png", full_page=True) and None


def test_formgrader_shows_a_hostile_notebook_and_runs_nothing(
    page: Page, grading_server: Server, course: Path, save: Callable[[Page, str], None]
) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "lockstep") as gradebook:
        submission = gradebook.find_submission_notebook(LAB, LAB, "hal").id
    page.goto(f"{grading_server.url}lab?token={grading_server.token}")  # formgrader's own pages set no cookie
    page.goto(f"{grading_server.url}formgrader/manage_submissions/{LAB}")
    page.wait_for_selector("tbody >> text=wim", timeout=_WITHIN_MS)
    save(page, "formgrader-submissions")
    page.goto(f"{grading_server.url}formgrader/submissions/{submission}/")
    page.wait_for_selector("#notebook-container", timeout=_WITHIN_MS)
    save(page, "formgrader-notebook")
    shown = page.inner_text("#notebook-container")
    assert "alert('pwned')" in shown
    assert page.locator("#notebook-container img[alt*='frac']").count() == 1
    assert page.evaluate("document.querySelector('#notebook-container img[alt*=frac]').naturalWidth") > 20


def test_the_feedback_page_is_complete_without_a_network(
    page: Page, browser: BrowserContext, course: Path, save: Callable[[Page, str], None]
) -> None:
    browser.set_offline(True)
    try:
        for student in ("hal", "wim"):
            page.goto((course / "feedback" / student / LAB / f"{LAB}.html").as_uri())
            save(page, f"feedback-{student}")
            assert "points" in page.inner_text("h1")
        assert page.locator("svg, img[src^='data:']").count() >= 1
        page.goto((course / "reports" / "wim" / f"{LAB}.html").as_uri())
        save(page, "report-wim")
    finally:
        browser.set_offline(False)
