"""The interactive timeline with 16 ranks of 10,000 events: how long a frame takes while zooming and moving.

Needs chromium and psutil. Measured is processor time, which a busy machine changes less than wall-clock time: of all
threads of the browser, which without a GPU also draw, and of the busiest one, which decides how many frames there are.
"""

from __future__ import annotations

import contextlib
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

# Frames as the browser shows them: each changes the view, draws, and waits for the next.
_FRAMES = """async ([kind, frames]) => {
    const shown = document.getElementById('timeline').lockstep, view = shown.view, took = [];
    const next = () => new Promise((done) => requestAnimationFrame(done));
    view.show(0, shown.model.edge);
    if (kind === 'moving') view.show(300, 340);
    for (let k = 0; k < frames; k++) {
        if (kind === 'zooming') view.zoom(k < frames / 2 ? 1.15 : 1 / 1.15, 300);
        if (kind === 'moving') view.pan(0.02);
        await next();
        shown.paint();
        took.push(shown.lastFrameMs);
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
        return _measure(browser, file, 40 if quick else 120)


def _measure(browser: str, file: Path, frames: int) -> bool:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running: Any = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = running.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(600_000)
        began, before = time.perf_counter(), _processor_s()
        page.goto(file.as_uri())
        page.wait_for_function("() => document.getElementById('timeline').lockstep?.lastFrameMs > 0")
        print(f"opened in {time.perf_counter() - began:.1f} s, {sum(_since(before)):.1f} s of processor time")
        ok = True
        for kind in ("the whole", "zooming", "moving"):
            before = _processor_s()
            took: list[float] = sorted(page.evaluate(_FRAMES, [kind, frames]))
            busiest, *others = sorted((seconds / frames * 1000 for seconds in _since(before)), reverse=True)
            drawn, worst = statistics.median(took), took[int(0.95 * (frames - 1))]
            print(
                f"{kind}: a frame takes {busiest:.1f} ms of the busiest thread, {busiest + sum(others):.1f} ms of all; "
                f"drawn in {drawn:.1f} ms (median), 95 % within {worst:.1f} ms of wall-clock time"
            )
            ok &= busiest < _FRAME_MS
        running.close()
    return ok


def _processor_s() -> dict[tuple[int, int], float]:
    """Processor seconds that every thread of the browser has used so far."""
    import psutil

    used: dict[tuple[int, int], float] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            used |= {(process.pid, thread.id): thread.user_time + thread.system_time for thread in process.threads()}
    return used


def _since(before: dict[tuple[int, int], float]) -> list[float]:
    return [seconds - before.get(thread, 0.0) for thread, seconds in _processor_s().items()]


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
