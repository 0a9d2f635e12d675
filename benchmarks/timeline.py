"""The interactive timeline with 16 ranks of 10,000 events: how long a frame takes while zooming and moving.

Needs chromium. A frame is what the widget's script does to draw one, without what the browser does with it afterwards;
where there is no GPU, as in this measurement, the canvas is drawn by the processor.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.show import timeline
from simulator.trace import Event, Trace

RANKS, EVENTS = 16, 10_000
_STEP_NS = 6000
_FRAME_MS = 1000 / 30  # what still looks smooth

# One frame a call: zooms in and out by small steps, then moves.
_FRAMES = """(rounds) => {
    const shown = document.getElementById('timeline').lockstep, view = shown.view;
    const took = {zoom: [], move: [], whole: []};
    const frame = (name) => { shown.paint(); took[name].push(shown.lastFrameMs); };
    for (let k = 0; k < rounds; k++) { shown.view.show(0, shown.model.edge); frame('whole'); }
    for (const factor of [1.15, 1 / 1.15])
        for (let k = 0; k < 3 * rounds; k++) { view.zoom(factor, 300); frame('zoom'); }
    for (const width of [400, 40, 4]) {
        view.show(300, 300 + width);
        for (let k = 0; k < rounds; k++) { view.pan(0.02); frame('move'); }
    }
    return took;
}"""


def main(*, quick: bool) -> bool:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("not measured: there is no chromium on this machine")
        return True
    trace = Trace({"clock": "virtual", "world_size": RANKS, "outcome": "Completed"}, list(_events()))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "timeline.html"
        began = time.perf_counter()
        file.write_text(timeline(trace).html(), encoding="utf-8")
        written = time.perf_counter() - began
        size = file.stat().st_size / 1e6
        print(f"{RANKS} ranks x {EVENTS:,} events: page written in {written:.1f} s, {size:.1f} MB")
        opened, took = _measure(browser, file, 5 if quick else 20)
    print(f"opened in {opened:.1f} s: read, decoded and drawn")
    for name, times in took.items():
        times.sort()
        worst = times[int(0.95 * (len(times) - 1))]
        print(f"{name:5}: median {statistics.median(times):.1f} ms, 95 % below {worst:.1f} ms ({len(times)} frames)")
    return all(statistics.median(times) < _FRAME_MS for times in took.values())


def _measure(browser: str, file: Path, rounds: int) -> tuple[float, dict[str, list[float]]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running: Any = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = running.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_function("() => document.getElementById('timeline').lockstep?.lastFrameMs > 0", timeout=120_000)
        opened = time.perf_counter() - began
        took: dict[str, list[float]] = page.evaluate(_FRAMES, rounds)
        running.close()
    return opened, took


def _events() -> Iterator[Event]:
    """Steps of three stretches of compute and two overlapped all-reduces; rank 5 is late."""
    for rank in range(RANKS):
        for step in range(EVENTS // 5):
            begin = step * _STEP_NS
            late = 300 * (rank == 5)
            for k, (phase, start, end) in enumerate(
                (("forward", 0, 1500 + late), ("backward", 1500 + late, 4200), ("optimizer", 4900, 5600))
            ):
                yield Event(
                    rank=rank,
                    n=5 * step + k,
                    step=step,
                    op="compute",
                    phase=phase,
                    issue_ns=begin + start,
                    start_ns=begin + start,
                    end_ns=begin + end,
                    live_bytes=1000 * (k + 1),
                )
            for k, (issue, start, end, wait) in enumerate(((2500, 2800, 3900, 4200), (3600, 3900, 4900, 4300))):
                yield Event(
                    rank=rank,
                    n=5 * step + 3 + k,
                    step=step,
                    op="all_reduce",
                    group="default",
                    stream="comm:default",
                    seq=2 * step + k,
                    work=2 * step + k,
                    bytes=1 << 20,
                    issue_ns=begin + issue,
                    start_ns=begin + start,
                    end_ns=begin + end,
                    wait_ns=begin + wait,
                )
