"""30 mixed submissions through `lockstep grade`: what grading costs beyond the checks, beside stock nbgrader.

The checks themselves are timed on a warm job without a sandbox, on the same cells. Stock nbgrader autogrades the same
notebooks with check cells that check nothing, so that its time, too, is what grading costs beyond the checks.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from autograder.build import tree
from autograder.grading import JobHost, Params, grade_notebook

ROOT = Path(__file__).resolve().parents[1]
LAB, EXERCISE = "lab2", "ring-all-reduce"
MAX_OVERHEAD_S, MAX_OF_STOCK = 1.0, 0.25
MIX = {
    "reference": 12,
    "off_by_one_in_the_all_gather": 3,
    "hub": 3,
    "all_send_first": 3,
    "untouched": 4,
    "no_python": 3,
    "no_notebook": 2,
}


def main(*, quick: bool) -> bool:
    """Print the table; True if the promises hold."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as name:
        place = Path(name)
        notebooks = _submissions(place / "in", quick=quick)
        checks_s, fair = _checks(notebooks)
        with _peak_memory() as peak:
            total_s, points = _ours(place, "first")
        _, again = _ours(place, "second", seed=place / "first" / "grading_seed")
        stock_s = _stock(place, notebooks, 3 if quick else 10)
        same = [_seal(place, "first", s) == _seal(place, "second", s) for s in notebooks]
    count = len(notebooks)
    overhead_s = (total_s - checks_s) / count
    print(f"{count} submissions: {total_s:.1f} s in all, {checks_s:.1f} s of it for the checks themselves")
    ratio = overhead_s / stock_s
    print(f"beyond the checks: {overhead_s:.2f} s a submission; stock nbgrader {stock_s:.2f} s: {ratio:.2f} of it")
    print(f"peak memory of all processes together {peak[0] / 1e9:.2f} GB, without what they share")
    print(f"points as without a sandbox: {points == fair == again}; two gradings byte for byte the same: {all(same)}")
    honest = points == fair == again and all(same)
    return honest and overhead_s <= MAX_OVERHEAD_S and overhead_s <= MAX_OF_STOCK * stock_s


def _submissions(folder: Path, *, quick: bool) -> dict[str, bytes]:
    """Student -> notebook file, also written to `folder`."""
    made: dict[str, bytes] = {}
    for kind, number in MIX.items():
        for k in range(1 if quick else number):
            made[f"{kind}-{k}"] = _notebook(kind)
    folder.mkdir()
    for student, data in made.items():
        (folder / f"{student}.ipynb").write_bytes(data)
    return made


def _notebook(kind: str) -> bytes:
    if kind == "no_notebook":
        return b"{"
    if kind == "reference":
        return tree.solution_notebook(ROOT, LAB)
    notebook = json.loads((ROOT / f"labs/{LAB}/{LAB}.ipynb").read_bytes())
    if kind != "untouched":
        broken = f"# exercise: {LAB}/{EXERCISE}\ndef ring_all_reduce(tensor:\n"
        mutants = list((ROOT / "tests/mutants").glob(f"**/{kind}.py"))
        _exercise(notebook)["source"] = mutants[0].read_text() if mutants else broken
    return json.dumps(notebook).encode()


def _exercise(notebook: Any) -> Any:
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == EXERCISE)


def _checks(notebooks: dict[str, bytes]) -> tuple[float, dict[str, float]]:
    """Seconds of all checks on a warm job, and the points by student."""
    points: dict[str, float] = {}
    with JobHost() as host:
        _grade(notebooks["reference-0"], host)
        began = time.perf_counter()
        for student, data in notebooks.items():
            points[student] = _grade(data, host)
        return time.perf_counter() - began, points


def _grade(data: bytes, host: JobHost) -> float:
    if data == b"{":
        return 0.0
    return grade_notebook(data, LAB, Params(kind="hidden", seed="benchmark"), host=host, root=ROOT).points


def _ours(place: Path, name: str, seed: Path | None = None) -> tuple[float, dict[str, float]]:
    """Seconds of `lockstep grade` in a new course folder that is generated beforehand, and the points by student."""
    course = ["--course", str(place / name)]
    _lockstep("nbgrader", "generate", *course)
    if name == "first":
        path = place / name / "grading_seed"
        path.write_text("benchmark\n")
    began = time.perf_counter()
    _lockstep("grade", str(place / "in"), *course, *(["--seed-file", str(seed)] if seed else []))
    seconds = time.perf_counter() - began
    sealed = (place / name / "sealed").glob(f"*/{LAB}.json")
    return seconds, {path.parent.name: json.loads(path.read_bytes())["result"]["points"] for path in sealed}


def _seal(place: Path, name: str, student: str) -> bytes:
    return (place / name / "sealed" / student / f"{LAB}.json").read_bytes()


def _lockstep(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "autograder.cli", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def _stock(place: Path, notebooks: dict[str, bytes], count: int) -> float:
    """Seconds a submission of `nbgrader autograde` with its own configuration, on notebooks that check nothing."""
    course = place / "stock"
    (course / "source" / LAB).mkdir(parents=True)
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'stock'\n")
    source = _plain(json.loads(_notebook("untouched")))
    (course / "source" / LAB / f"{LAB}.ipynb").write_text(json.dumps(source))
    _nbgrader(course, "generate_assignment", LAB, "--force")
    released = json.loads((course / "release" / LAB / f"{LAB}.ipynb").read_bytes())
    for student in list(notebooks)[:count]:
        folder = course / "submitted" / student / LAB
        folder.mkdir(parents=True)
        (folder / f"{LAB}.ipynb").write_text(json.dumps(released))
    began = time.perf_counter()
    _nbgrader(course, "autograde", LAB)
    return (time.perf_counter() - began) / count


def _plain(notebook: Any) -> Any:
    """The notebook with code cells that do nothing: nbgrader's own time and a kernel's."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = "1.0"
    return notebook


def _nbgrader(course: Path, *words: str) -> None:
    program = Path(sys.executable).parent / "nbgrader"
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(course)}
    command = [str(program if program.exists() else shutil.which("nbgrader")), *words, "--log-level=ERROR"]
    subprocess.run(
        command, check=True, cwd=course, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """The largest sum of resident memory without shared pages of all processes below this one, in bytes, in a list."""
    peak, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    info = process.memory_info()
                except psutil.Error:
                    continue
                total += max(0, info.rss - info.shared)
            peak[0] = max(peak[0], total)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
