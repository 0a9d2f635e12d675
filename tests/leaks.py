"""A test that leaves something behind fails: a process, a listening port, a temp folder, shared memory.

The whole session has a temp folder of its own, with a short path (a unix socket's path may have 107 bytes), and a
marker in the environment that every process started from here inherits: so an orphan is found although it has no
parent left.
The simulator's warm helpers (`simulator.launch.world_pids()`) outlive a run on purpose; they end with the session.

Not seen: a process that was started with an emptied environment and has lost its parent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

_MARKER = "LOCKSTEP_TEST_SESSION"
_GRACE_S = 3.0  # a killed process needs a moment to be gone; a leaked one stays
#: Pids of the fixtures' hosts that may be started again during a test (when one was stopped), and then stay.
HOSTS: list[Callable[[], int | None]] = []
_SHM = Path("/dev/shm")
_OF_TESTS = "lockstep_test_"  # names that tests of this file give: they end with the marker of their session


class Session:
    """What belongs to this pytest run: its marker and its temp folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lst-", dir="/tmp"))
        self.marker = self.folder.name
        outer = os.environ.get(_MARKER, "")
        self.saved = {name: os.environ.get(name) for name in (_MARKER, "TMPDIR")}
        os.environ[_MARKER] = f"{outer}:{self.marker}"  # a pytest inside a test stays visible to the outer one
        os.environ["TMPDIR"] = str(self.folder)
        tempfile.tempdir = None

    def close(self) -> None:
        for name, value in self.saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        tempfile.tempdir = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> set[psutil.Process]:
        """Every living process that comes from this run, itself and zombies left out."""
        found = set(psutil.Process().children(recursive=True))
        found.update(process for process in psutil.process_iter() if self._marked(process))
        return {process for process in found if process.pid != os.getpid() and _counts(process)}

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return self.marker in process.environ().get(_MARKER, "")
        except psutil.Error:  # gone meanwhile, or another user's
            return False

    def ports(self, processes: set[psutil.Process]) -> set[tuple[int, int]]:
        """(pid, port) of the TCP ports that these processes, or this one, listen on."""
        return {(process.pid, port) for process in {*processes, psutil.Process()} for port in _listening(process)}

    def temp(self) -> set[str]:
        return {entry.name for entry in os.scandir(self.folder) if entry.name.startswith("lockstep-")}


class Snapshot:
    """What there was before a test, and what is new since."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.processes = session.processes()
        self.ports = session.ports(self.processes)
        self.temp = session.temp()
        self.shm = _shared_memory()

    def new_processes(self) -> set[psutil.Process]:
        """Processes started since; a server of a module's fixture may start its own (a kernel) and keep it."""
        warm = _world_pids()
        keepers = {process.pid for process in self.processes} - warm
        keepers |= {pid for host in HOSTS if (pid := host()) is not None}
        started = self.session.processes() - self.processes
        kept = {process for process in started if {process.pid, *_ancestors(process)} & keepers}
        return {process for process in started - kept if process.pid not in warm}

    def leaks(self) -> dict[str, set[Any]]:
        """What is left, by kind, with an empty set where nothing is."""
        return {
            "process": {_describe(process) for process in self.new_processes()},
            "listening port": {port for pid, port in self._new_ports() if pid not in self._kept_pids()},
            "temp folder": self.session.temp() - self.temp,
            "shared memory": _unclaimed(_shared_memory() - self.shm, self.session),
        }

    def _new_ports(self) -> set[tuple[int, int]]:
        return self.session.ports(self.session.processes()) - self.ports

    def _kept_pids(self) -> set[int]:
        keepers = {process.pid for process in self.processes} - _world_pids()
        return {process.pid for process in self.session.processes() if {process.pid, *_ancestors(process)} & keepers}

    def clean_up(self) -> None:
        """End what leaked, so that one test's leak is not the next one's."""
        leaked = self.new_processes()
        for process in leaked:
            _quietly(process.kill)
        psutil.wait_procs(leaked, timeout=_GRACE_S)
        for name in self.session.temp() - self.temp:
            shutil.rmtree(self.session.folder / name, ignore_errors=True)
            (self.session.folder / name).unlink(missing_ok=True)


def report(snapshot: Snapshot) -> str:
    """One line a leak, empty when there is none; waits a little for what is on its way out."""
    deadline = time.monotonic() + _GRACE_S
    while any((leaks := snapshot.leaks()).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return "\n".join(f"left behind: {kind} {item}" for kind, items in leaks.items() for item in sorted(items, key=str))


_SESSION = pytest.StashKey[Session]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SESSION] = Session()


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test when it leaves something behind."""
    snapshot = Snapshot(request.config.stash[_SESSION])
    yield
    if found := report(snapshot):
        snapshot.clean_up()
        pytest.fail(f"{request.node.nodeid}\n{found}", pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fixtures of every scope are torn down; end the warm helpers, and then nothing may be left."""
    ours = session.config.stash[_SESSION]
    if launch := sys.modules.get("simulator.launch"):
        launch.shutdown()
    deadline = time.monotonic() + _GRACE_S
    while (left := ours.processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [f"process {_describe(process)}" for process in left] + [f"temp folder {name}" for name in ours.temp()]
    if found:
        for process in left:
            _quietly(process.kill)
        print("\nThe session left behind:\n" + "\n".join(found), file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    if session := config.stash.get(_SESSION, None):
        session.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be skipped, a skip is a failure: a machine that lacks something must not look green."""
    result = yield
    if result.skipped and not hasattr(result, "wasxfail") and os.environ.get("LOCKSTEP_NOTHING_SKIPPED"):
        reason = result.longrepr[2] if isinstance(result.longrepr, tuple) else str(result.longrepr)
        result.outcome = "failed"
        result.longrepr = f"{item.nodeid}: nothing may be skipped here. {reason}"
    return result


def _counts(process: psutil.Process) -> bool:
    """Alive, and not Python's own resource tracker, which ends with the last process that uses it."""
    try:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return not any("multiprocessing.resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return False


def _listening(process: psutil.Process) -> list[int]:
    try:
        return [c.laddr.port for c in process.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


def _ancestors(process: psutil.Process) -> set[int]:
    try:
        return {parent.pid for parent in process.parents()}
    except psutil.Error:
        return set()


def _world_pids() -> set[int]:
    launch = sys.modules.get("simulator.launch")
    return set(launch.world_pids()) if launch else set()


def _shared_memory() -> set[str]:
    return set(os.listdir(_SHM)) if _SHM.is_dir() else set()


def _unclaimed(names: set[str], session: Session) -> set[str]:
    """`names` without those that a process outside this run has open, or that are named after another test run: the
    machine is not ours alone.
    """
    names = {name for name in names if not name.startswith(_OF_TESTS) or session.marker in name}
    if not names:
        return names
    ours = {process.pid for process in session.processes()} | {os.getpid()}
    others = (pid for pid in psutil.pids() if pid not in ours)
    claimed = {name for pid in others for name in names if f"{_SHM}/{name}" in _maps(pid)}
    return {name for name in names - claimed if (_SHM / name).exists()}


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid}: {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return str(process.pid)


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(psutil.Error, OSError):
        action()
