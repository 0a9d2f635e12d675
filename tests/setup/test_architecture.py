"""The rules of the house that a reader cannot see at a glance: arrows, clocks, lengths, cheap imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 300
PACKAGES = ("simulator", "autograder")

# labs, homework -> autograder -> simulator. The simulator knows nothing of courses, notebooks or grades.
FORBIDDEN = {
    "simulator": {"autograder", "tests", "solutions", "labs", "nbgrader", "nbformat", "nbconvert", "jupytext"},
    "autograder": {"tests", "solutions", "labs"},
}

# A run's trace must not depend on these: the wall clock, and randomness without a seed of the run.
CLOCKS_AND_CHANCE = (
    "time.",
    "random.",
    "numpy.random.",
    "np.random.",
    "uuid.",
    "secrets.",
    "os.urandom",
    "datetime.datetime.now",
    "datetime.now",
    "datetime.datetime.today",
)
# (module, call): why it cannot decide anything that a user sees.
ALLOWED = {
    ("simulator/coordinator/host.py", "time.monotonic"): "finds ranks that sleep for ever: NoProgress only",
    ("simulator/rank/main.py", "random.seed"): "gives user code the run's seed",
    ("simulator/rank/context.py", "random.Random"): "jitter, seeded by run, rank and thread",
    ("simulator/rank/main.py", "numpy.random.seed"): "gives user code the run's seed",
    ("simulator/record/log.py", "time.time_ns"): "a real job: the trace says that its clock is the wall's",
    ("simulator/record/log.py", "time.perf_counter_ns"): "as time.time_ns",
    ("simulator/record/log.py", "time.monotonic"): "how long the end of a real job waits for gloo",
    ("simulator/record/log.py", "time.sleep"): "as time.monotonic",
}


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every call, with `from time import sleep` read as time.sleep."""
    tree = ast.parse(path.read_text())
    full = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            full.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            full.update({alias.asname: alias.name for alias in node.names if alias.asname})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            head, dot, rest = ast.unparse(node.func).partition(".")
            yield node.lineno, full.get(head, head) + dot + rest


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", FORBIDDEN)
def test_arrows_run_one_way(package: str) -> None:
    upward = [
        f"{relative(path)} imports {name}"
        for path in modules(package)
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN[package]
    ]
    assert not upward, "\n".join(upward)


def test_no_clock_and_no_chance_in_the_simulator() -> None:
    found = {
        (relative(path), name): line
        for path in modules("simulator")
        for line, name in calls(path)
        if name.startswith(CLOCKS_AND_CHANCE)
    }
    new = [f"{module}:{line} calls {name}" for (module, name), line in found.items() if (module, name) not in ALLOWED]
    stale = [
        f"{module} no longer calls {name}: remove it from ALLOWED" for module, name in ALLOWED.keys() - found.keys()
    ]
    assert not new + stale, "\n".join(new + stale)


def test_the_clock_rule_sees_every_way_to_write_it(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import time as t\nfrom time import sleep\nimport numpy as np\nt.time()\nsleep(1)\nnp.random.rand()\n"
    )
    assert [name for _, name in calls(source)] == ["time.time", "time.sleep", "numpy.random.rand"]


def test_a_module_is_one_room() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in modules(*PACKAGES, "tools")}
    long = [f"{name}: {lines} lines. Is it two rooms?" for name, lines in lengths.items() if lines > LONGEST_MODULE]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_is_cheap(package: str) -> None:
    """torch alone takes longer to import than `lockstep --help` may take."""
    heavy = ("torch", "matplotlib", "IPython", "nbgrader", "numpy")
    code = f"import sys, {package}; print(*[name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_the_packages_carry_their_data() -> None:
    """An installed package has only what package-data names; the editable install of `make start` hides a gap."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    missed = [
        relative(path)
        for path in files
        if path.suffix not in (".py", ".pyc") and not any(path.match(pattern) for pattern in patterns)
    ]
    assert not missed, f"add to package-data in pyproject.toml: {missed}"


def test_the_test_session_runs_from_the_project() -> None:
    """The rules above looked at the packages that are imported here, not at another copy of them."""
    import autograder
    import simulator

    for package in (autograder, simulator):
        assert package.__file__ is not None
        assert os.path.samefile(Path(package.__file__).parents[1], ROOT)
