"""30 mixed submissions through `lockstep grade`: what grading costs beyond the checks, beside stock nbgrader.

Four parts, each kept in build/benchmarks/grading until all are there: interrupted, the same command goes on with the
part that was running. A check counts from its first case to its result; everything else of the wall time is overhead,
also the start of the sandbox. Stock nbgrader autogrades the same notebook with cells that do nothing, so that its time,
too, is what grading costs beyond the checks. Processor time is told as well: a busy machine spoils the other.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from autograder.build import tree
from autograder.grading import JobHost, Params, grade_notebook
from autograder.nbgrader_bridge import commands, seal

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "build" / "benchmarks" / "grading"
LAB, EXERCISE = "lab2", "ring-all-reduce"
MAX_OVERHEAD_S, MAX_OF_STOCK = 1.0, 0.25
LOOK_S = 0.5  # between two looks at the memory
MIX = {
    "all_exercises": 1,
    "right": 11,
    "off_by_one_in_the_all_gather": 3,
    "hub": 3,
    "all_send_first": 3,
    "untouched": 4,
    "no_python": 3,
    "no_notebook": 2,
}
Part = dict[str, Any]


def main(*, quick: bool) -> bool:
    """Print the table; True if the promises hold."""
    _begin(quick)
    sent = _submissions(STATE / "in", quick=quick)
    ours = _part("ours", lambda: _ours("ours", STATE / "in"))
    stock = _part("stock", lambda: _stock(3 if quick else 10))
    again = _part("again", lambda: _ours("again", _zip(STATE / "in"), "--jobs", "2"))
    beside = _part("beside", lambda: {"points": _beside(sent)})
    same = all(_seal("ours", student) == _seal("again", student) for student in sent)
    honest = all(ours["points"][student] == beside["points"][student.rsplit("-", 1)[0]] for student in sent)
    held = _table(len(sent), ours, stock)
    print(f"points as without a sandbox: {honest}; from a zip archive, two at a time, byte for byte the same: {same}")
    shutil.rmtree(STATE)
    return held and honest and same and ours["points"] == again["points"]


def _table(count: int, ours: Part, stock: Part) -> bool:
    wall_s, cpu_s = ((ours[f"total_{k}"] - ours.get(f"checks_{k}", 0.0)) / count for k in ("wall_s", "cpu_s"))
    print(f"{count} submissions: {ours['total_wall_s']:.1f} s, {ours['checks_wall_s']:.1f} s of it in checks")
    print(f"| beyond the checks, a submission | here | stock nbgrader ({stock['count']}) | ratio |\n|---|---|---|---|")
    for name, here, there in (("seconds", wall_s, stock["wall_s"]), ("processor seconds", cpu_s, stock["cpu_s"])):
        print(f"| {name} | {here:.2f} | {there:.2f} | {here / there:.2f} |")
    print(f"peak memory of all processes together {ours['peak_bytes'] / 1e9:.2f} GB, without what they share")
    return wall_s <= MAX_OVERHEAD_S and wall_s <= MAX_OF_STOCK * stock["wall_s"]


def _begin(quick: bool) -> None:
    """Keep what is there only where it was measured with the same code."""
    version, path = f"{seal.grader_digest(LAB)} {quick}", STATE / "version"
    if not path.is_file() or path.read_text() != version:
        shutil.rmtree(STATE, ignore_errors=True)
        STATE.mkdir(parents=True)
        path.write_text(version)


def _part(name: str, measure: Callable[[], Part]) -> Part:
    """What `measure` gives, now or when the part was there before."""
    path = STATE / f"{name}.json"
    if not path.is_file():
        print(f"{name} ...", file=sys.stderr, flush=True)
        path.write_text(json.dumps(measure()))
    found: Part = json.loads(path.read_bytes())
    return found


def _submissions(folder: Path, *, quick: bool) -> list[str]:
    """The students, whose notebooks are written to `folder`."""
    made = {f"{kind}-{k}": _notebook(kind) for kind, n in MIX.items() for k in range(1 if quick else n)}
    folder.mkdir(exist_ok=True)
    for student, data in made.items():
        (folder / f"{student}.ipynb").write_bytes(data)
    return list(made)


def _notebook(kind: str) -> bytes:
    if kind == "no_notebook":
        return b"{"
    if kind == "all_exercises":
        return tree.solution_notebook(ROOT, LAB)
    notebook = json.loads((ROOT / f"labs/{LAB}/{LAB}.ipynb").read_bytes())
    right = _exercise(json.loads(tree.solution_notebook(ROOT, LAB)))["source"]
    broken = f"# exercise: {LAB}/{EXERCISE}\ndef ring_all_reduce(tensor:\n"
    if kind != "untouched":
        mutants = list((ROOT / "tests/mutants").glob(f"**/{kind}.py"))
        wrong = mutants[0].read_text() if mutants else broken
        _exercise(notebook)["source"] = right if kind == "right" else wrong
    return json.dumps(notebook).encode()


def _exercise(notebook: Any) -> Any:
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == EXERCISE)


def _zip(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return path


def _beside(students: list[str]) -> dict[str, float]:
    """The points of each kind, checked on a warm job without a sandbox."""
    points: dict[str, float] = {}
    with JobHost() as host:
        for kind in dict.fromkeys(student.rsplit("-", 1)[0] for student in students):
            data = _notebook(kind)
            params = Params(kind="hidden", seed="benchmark")
            graded = None if data == b"{" else grade_notebook(data, LAB, params, host=host, root=ROOT)
            points[kind] = sum(exercise.points for exercise in graded.exercises) if graded else 0.0
    return points


def _all_points(exercises: list[dict[str, Any]]) -> float:
    """Those of stretch exercises, too, which are no part of the grade."""
    return sum(float(exercise["points"]) for exercise in exercises)


def _ours(name: str, submissions: Path, *more: str) -> Part:
    """`lockstep grade`, in this process so that checks can be timed, in a new course folder generated beforehand."""
    course = STATE / name
    shutil.rmtree(course, ignore_errors=True)
    words = ["--course", str(course), "--assignment", LAB]
    commands.nbgrader.main(["generate", *words], standalone_mode=False)
    (course / "grading_seed").write_text("benchmark\n")
    with _timed_checks() as checks_s, _peak_memory() as peak:
        began, cpu = time.perf_counter(), time.process_time()
        if commands.grade.main([str(submissions), *words, *more], standalone_mode=False):
            raise SystemExit("Interrupted, or not all could be graded. The parts that are done are kept.")
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    sealed = course.glob(f"sealed/*/{LAB}.json")
    points = {path.parent.name: _all_points(json.loads(path.read_bytes())["result"]["exercises"]) for path in sealed}
    return {
        "total_wall_s": wall_s,
        "total_cpu_s": cpu_s - peak["cpu_s"],  # of the grading process: checks run in others
        "checks_wall_s": sum(checks_s),
        "peak_bytes": peak["bytes"],
        "points": points,
    }


@contextmanager
def _timed_checks() -> Iterator[list[float]]:
    """Seconds of every check from its first case to its result, in a list."""
    seconds: list[float] = []
    honest = JobHost.check

    def check(self: JobHost, request: Any, deadline_s: float, progress: Callable[[str], None]) -> Any:
        began: list[float] = []

        def first(text: str) -> None:
            if "case" in text:
                began.append(time.perf_counter())
            progress(text)

        result = honest(self, request, deadline_s, first)
        seconds.append(time.perf_counter() - began[0] if began else 0.0)
        return result

    JobHost.check = check  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        JobHost.check = honest  # type: ignore[method-assign]


def _seal(name: str, student: str) -> bytes:
    return (STATE / name / "sealed" / student / f"{LAB}.json").read_bytes()


def _stock(count: int) -> Part:
    """`nbgrader autograde` with its own configuration, on notebooks that check nothing: seconds a submission."""
    course = STATE / "stock"
    shutil.rmtree(course, ignore_errors=True)
    (course / "source" / LAB).mkdir(parents=True)
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'stock'\n")
    source = json.loads(_notebook("untouched"))
    for cell in source["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = "pass"
    (course / "source" / LAB / f"{LAB}.ipynb").write_text(json.dumps(source))
    _nbgrader(course, "generate_assignment", LAB, "--force")
    for k in range(count):
        shutil.copytree(course / "release" / LAB, course / "submitted" / f"student-{k}" / LAB)
    began, cpu_s = time.perf_counter(), _children_s()
    _nbgrader(course, "autograde", LAB)
    wall_s, cpu_s = time.perf_counter() - began, _children_s() - cpu_s
    return {"wall_s": wall_s / count, "cpu_s": cpu_s / count, "count": count}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _nbgrader(course: Path, *words: str) -> None:
    program = Path(sys.executable).parent / "nbgrader"
    environment = os.environ | {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(course)}
    command = [str(program), *words, "--log-level=ERROR"]
    subprocess.run(command, check=True, cwd=course, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@contextmanager
def _peak_memory() -> Iterator[dict[str, float]]:
    """The largest sum of resident memory without shared pages, in bytes, of this process and all below it."""
    peak, done = {"bytes": 0.0, "cpu_s": 0.0}, threading.Event()

    def look() -> None:
        while not done.wait(LOOK_S):
            me, total = psutil.Process(), 0
            for process in (me, *me.children(recursive=True)):
                try:
                    info = process.memory_info()
                except psutil.Error:
                    continue
                total += max(0, info.rss - info.shared)
            peak["bytes"] = max(peak["bytes"], total)
            peak["cpu_s"] = time.thread_time()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
