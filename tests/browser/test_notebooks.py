"""A student's first hour, in a real JupyterLab in Chromium: the start notebook, then the exercise of Lab 2."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.build import tree
from tests.browser.conftest import ROOT
from tests.browser.jupyter import Lab, errors, images, marked_processes, output_text, serve, source
from tests.needs import needs_chromium

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(400)]
EXERCISE, CHECK = "# exercise: lab2/ring-all-reduce", 'check("lab2/ring-all-reduce")'
HINT = 'hint("lab2/ring-all-reduce"'


def reference_cell() -> str:
    """The exercise cell of the reference notebook."""
    import json

    cells = json.loads(tree.solution_notebook(ROOT, "lab2"))["cells"]
    [text] = [source(cell) for cell in cells if source(cell).startswith(EXERCISE)]
    return text


def test_the_start_notebook_runs_from_top_to_bottom(lab: Lab, screenshot: Callable[[str], Path]) -> None:
    lab.open("labs/start.ipynb")
    first = lab.find("def hello()")
    lab.write(first, source(lab.cells()[first]).replace("# simulator.run", "simulator.run"))
    lab.run_all()

    cells = lab.cells()
    assert errors(cells) == []
    assert "hello from rank 2 of 3" in output_text(cells[first])
    assert "counter in this notebook: 0" in output_text(cells[lab.find("counter = 0")])
    assert "[10.0, 10.0, 10.0, 10.0]" in output_text(cells[lab.find("def add_up()")])
    assert "rank 2" in output_text(cells[lab.find("hang = simulator.run")])
    assert "the same, event by event: True" in output_text(cells[lab.find("hang.replay")])
    for cell in (lab.find("def work_then_add()"), lab.find("hang.timeline()")):
        assert images(cells[cell]), source(cells[cell])

    lab.show(0)
    screenshot("start-top")
    for name, text in (("start", "def work_then_add()"), ("start-hang", "hang = simulator"), ("start-kill", "lost = ")):
        lab.show(lab.find(text))
        screenshot(name)


@pytest.mark.slow
def test_the_exercise_fails_with_a_reason_and_passes_with_the_reference(
    lab: Lab, screenshot: Callable[[str], Path]
) -> None:
    lab.open("labs/lab2/lab2.ipynb")
    exercise, check = lab.find(EXERCISE), lab.find(CHECK)
    lab.run_all()
    cells = lab.cells()
    assert errors(cells) == []
    assert "starter" in output_text(cells[check])
    assert "Traceback" not in output_text(cells[check])
    lab.show(exercise)
    screenshot("lab2-starter")
    lab.show(lab.find("ring = simulator.run"))
    screenshot("lab2-unwritten")
    lab.show(0)
    screenshot("lab2-top")

    lab.write(exercise, reference_cell())
    lab.run_all()
    cells = lab.cells()
    assert errors(cells) == []
    assert "passed" in output_text(cells[check]).lower()
    ring = lab.find("ring = simulator.run")
    assert images(cells[ring])
    lab.show(lab.find("hub = simulator.run"))
    screenshot("lab2-hub")
    lab.show(check)
    screenshot("lab2-passed")
    lab.show(ring)
    screenshot("lab2")


@pytest.mark.slow
def test_a_wrong_ring_is_answered_with_a_picture_and_a_hint(lab: Lab, screenshot: Callable[[str], Path]) -> None:
    wrong = (ROOT / "tests" / "mutants" / "lab2_ring_all_reduce" / "all_send_first.py").read_text(encoding="utf-8")
    lab.open("labs/lab2/lab2.ipynb")
    exercise, check = lab.find(EXERCISE), lab.find(CHECK)
    lab.write(exercise, wrong)
    hint = lab.find(HINT)
    lab.write(hint, source(lab.cells()[hint]).replace("# hint", "hint"))
    lab.run_all()
    cells = lab.cells()
    assert errors(cells) == []
    said = output_text(cells[check])
    assert "wait for each other" in said
    assert "data:image/svg+xml" in said
    assert "rank" in output_text(cells[hint])
    lab.show(check)
    screenshot("lab2-deadlock")
    lab.show(hint, "end")
    screenshot("lab2-hint")


def test_a_closed_server_leaves_no_process_and_no_port(tmp_path: Path, course: Path) -> None:
    home = Path(tempfile.mkdtemp(dir=tmp_path))
    with serve(course, home) as server:
        assert marked_processes(home)
        port = server.port
    assert marked_processes(home) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
