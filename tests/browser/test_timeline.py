"""The interactive timeline in Chromium: what keyboard, pointer, search and jumps do, told by what the page says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from simulator.show import timeline
from simulator.trace import Trace
from tests.browser.conftest import ROOT
from tests.browser.jupyter import Lab, errors, source
from tests.needs import needs_chromium
from tests.show.test_widget import hang, overlapped, training

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(400)]

READY = "() => document.getElementById('timeline').lockstep?.lastFrameMs >= 0"
STATUS, ROWS = ".lockstep-status", ".lockstep-rows"
VIEW = "() => { const v = document.getElementById('timeline').lockstep.view; return [v.left, v.right]; }"
INK = """(selector) => {
    const c = document.querySelector(selector), data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return colours.size;
}"""


@pytest.fixture
def opened(browser: BrowserContext, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open traces as `lockstep timeline --html` writes them; nothing may be asked of a machine or go wrong."""
    pages: list[Page] = []
    troubles: list[str] = []

    def open_page(one: Trace, other: Trace | None = None, **options: object) -> Page:
        file = tmp_path / f"{len(pages)}.html"
        file.write_text(timeline(one, compare=other, **options).html(), encoding="utf-8")  # type: ignore[arg-type]
        page = browser.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith("http") and troubles.append(asked.url))
        page.goto(file.as_uri())
        page.wait_for_function(READY)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert troubles == []


def test_the_keyboard_goes_from_bar_to_bar_and_says_each(opened: Callable[..., Page]) -> None:
    page = opened(training(slow=300))
    page.focus(ROWS)
    page.keyboard.press("ArrowRight")
    assert page.inner_text(STATUS).startswith("rank 0: compute, 1 µs")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(STATUS).startswith("rank 0: all_reduce #0: waiting for another rank, 300 ns")
    page.keyboard.press("ArrowDown")
    assert page.inner_text(STATUS).startswith("rank 1: compute, 1.3 µs")
    page.keyboard.press("End")
    assert page.inner_text(STATUS).startswith("rank 1: all_reduce #1: collective transfer, 500 ns")
    page.keyboard.press("Enter")
    left, right = page.evaluate(VIEW)
    assert right - left < 1000 / 2
    page.keyboard.press("f")
    assert page.evaluate(VIEW) == [0, 1000]
    page.keyboard.press(".")
    said = page.inner_text(STATUS).splitlines()
    assert said[0].startswith("At 1.8")
    assert [line.partition(":")[0] for line in said[1:]] == ["rank 0", "rank 1", "rank 2"]


def test_a_finding_is_jumped_to(opened: Callable[..., Page]) -> None:
    page = opened(hang())
    page.select_option("select", label="rank 2: all_reduce #1, timeout after 1,800 s")
    assert page.inner_text(STATUS).startswith("rank 2: all_reduce #1: stuck, then failed, 1,800 s")
    assert "timed out in all_reduce #1" in page.inner_text(".lockstep-head")


def test_the_pointer_zooms_moves_and_tells(opened: Callable[..., Page]) -> None:
    page = opened(overlapped())
    box = page.locator(ROWS).bounding_box()
    assert box is not None
    middle = box["x"] + 96 + (box["width"] - 104) / 2, box["y"] + 12 + 12 + 20
    page.mouse.move(*middle)
    assert "all_reduce #0" in page.inner_text(".lockstep-tip")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("() => document.getElementById('timeline').lockstep.view.right < 999")
    before = page.evaluate(VIEW)
    page.mouse.down()
    page.mouse.move(middle[0] - 100, middle[1], steps=3)
    page.mouse.up()
    after = page.evaluate(VIEW)
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])


def test_search_ranks_and_the_order_of_two_traces(opened: Callable[..., Page]) -> None:
    page = opened(training(), training(slow=4000), names=("before", "after"))
    page.fill("input[type=search]", "all_red")
    assert page.inner_text(".lockstep-count") == "12 found"
    page.press("input[type=search]", "Enter")
    assert page.inner_text(STATUS).startswith("before, rank 0: all_reduce #0")
    page.fill(".lockstep-ranks", "1-2")
    rows = "() => document.getElementById('timeline').lockstep.view.layout.rows.map(r => `${r.trace}${r.rank}`)"
    assert page.evaluate(rows) == ["01", "02", "11", "12"]
    page.select_option("select >> nth=1", "rank")
    assert page.evaluate(rows) == ["01", "11", "02", "12"]


def test_it_is_drawn_also_in_the_dark_and_in_a_narrow_window(opened: Callable[..., Page]) -> None:
    page = opened(training(slow=300))
    light = page.evaluate(INK, ROWS)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 420, "height": 700})
    page.evaluate("() => document.getElementById('timeline').lockstep.paint()")
    assert light > 10
    assert page.evaluate(INK, ROWS) > 10
    assert page.evaluate("() => document.querySelector('.lockstep-dark') !== null")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_without_scripts_the_text_is_there(opened: Callable[..., Page], tmp_path: Path) -> None:
    page = opened(training())
    page.close()
    html = (tmp_path / "0.html").read_text(encoding="utf-8")
    assert html.index("Reading: ") < html.index("<script")


RENDER = """async ([source, told]) => {
    const module = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
    const bytes = new TextEncoder().encode(told.data);
    const model = {get: (name) => name === 'data' ? new DataView(bytes.buffer) : told.at};
    module.default.render({model, el: document.body});
}"""


def test_the_slider_of_bucket_sizes_says_what_each_run_took(browser: BrowserContext) -> None:
    from autograder.experiments import BucketCurve, buckets
    from autograder.experiments.curve import _file

    told = BucketCurve()._told()
    page = browser.new_page()
    page.evaluate(RENDER, [_file("curve.js"), {"data": told["data"].decode(), "at": told["at"]}])
    assert page.inner_text(".said").startswith("25 MB: 6 buckets, step 2.59 ms")
    page.focus("input[type=range]")
    page.keyboard.press("End")
    assert page.inner_text(".said").startswith("150 MB: one bucket, step 2.92 ms")
    said = page.get_attribute("input[type=range]", "aria-valuetext")
    assert said is not None
    assert said.startswith("150 MB: one bucket")
    assert page.locator("svg .bucket").count() == 1
    page.keyboard.press("Home")
    assert page.locator("svg .bucket").count() == len(buckets.recorded()[1][2].buckets) == 64
    page.select_option("select", "0")
    assert "DDP does not know the order yet" in page.inner_text(".said")
    page.close()


SHOWN = """() => [...document.querySelectorAll('.jp-OutputArea-child')].filter(child => child.offsetHeight > 0).map(
    child => child.querySelector('canvas') ? 'widget' : child.querySelector('img') ? 'picture' : child.innerText)"""


@pytest.mark.slow
def test_a_notebook_shows_the_widget_and_keeps_the_picture(lab: Lab, course: Path) -> None:
    import nbformat

    cell = "from tests.show.test_widget import hang\nfrom simulator.show import timeline\ntimeline(hang())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, course / "widget.ipynb")
    lab.open("widget.ipynb")
    lab.write(0, f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{cell}")
    lab.run_all()
    lab.page.wait_for_selector(".lockstep-rows")
    assert errors(lab.cells()) == []
    assert lab.page.evaluate(SHOWN) == ["widget"]
    lab.execute("docmanager:save")
    lab.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert source(lab.cells()[0]).endswith("timeline(hang())")
    assert "data:application" not in (course / "widget.ipynb").read_text()
    lab.execute("kernelmenu:shutdown")
    lab.page.wait_for_timeout(500)
    lab.page.goto(f"{lab.server.url}lab/tree/widget.ipynb?reset&token={lab.server.token}")
    lab.page.wait_for_selector(".jp-OutputArea-child img", timeout=120_000)
    shown = lab.page.evaluate(SHOWN)
    assert shown[-1] == "picture"
    assert not [text for text in shown if "widget" in text]  # "Loading widget...", "Error displaying widget"
    if folder := os.environ.get("LOCKSTEP_SCREENSHOTS"):
        lab.page.screenshot(path=f"{folder}/widget-saved.png")
