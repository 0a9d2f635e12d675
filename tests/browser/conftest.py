"""One JupyterLab server and one Chromium for the browser tests, on a copy of the course folder that students get."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, sync_playwright

from tests.browser.jupyter import CHROMIUM_FLAGS, Lab, Server, serve
from tests.needs import chromium

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of the course folder that the notebooks need, to be written into."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "course.yaml", folder)
    shutil.copytree(ROOT / "labs", folder / "labs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its settings, its log and its runtime files."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(course: Path, home: Path) -> Iterator[Server]:
    """JupyterLab on the copied course folder."""
    with serve(course, home) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """The system's Chromium with an empty profile."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium(),
            headless=True,
            args=CHROMIUM_FLAGS,
            viewport={"width": 1280, "height": 900},
        )
        yield context
        context.close()


@pytest.fixture
def lab(browser: BrowserContext, server: Server) -> Iterator[Lab]:
    """A fresh page; that nothing was asked of another machine is checked at the end."""
    opened = Lab(browser.new_page(), server)
    yield opened
    opened.page.close()
    assert opened.outside == []


@pytest.fixture
def screenshot(lab: Lab, tmp_path: Path) -> Callable[[str], Path]:
    """Save what the page shows as NAME.png: in LOCKSTEP_SCREENSHOTS if that is set, else in the test's folder."""
    folder = Path(os.environ.get("LOCKSTEP_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str) -> Path:
        path = folder / f"{name}.png"
        lab.page.screenshot(path=path)
        return path

    return save
