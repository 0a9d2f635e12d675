"""Rooms of the sandbox: apart from each other and from what is outside, gone when they end, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

import simulator
from autograder.errors import SandboxError
from autograder.grading import JobHost
from autograder.sandbox import bubblewrap, limits, processes, watch
from autograder.sandbox.building import Building, Room
from simulator import launch
from tests.needs import needs_bubblewrap

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a room cannot see the tests
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def building() -> Iterator[Building]:
    """A building with its nursery, for all tests of this module."""
    made = Building("bubblewrap")
    made.open().close()
    yield made
    made.close()


def _run(room: Room, function: Callable[..., Any], ranks: int = 1) -> simulator.Run:
    world = launch.World(ranks=room)
    world.cwd, world.environ = room.place
    try:
        with launch.within(world):
            return simulator.run(function, ranks, echo=False)
    finally:
        world.coordinator.close()


def _look_around() -> list[Any]:
    import socket
    from pathlib import Path

    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).close()
    left = sorted(path.name for place in (".", "/dev/shm", "/tmp") for path in Path(place).iterdir())
    Path("left behind").touch()
    Path("/dev/shm/left behind").touch()
    capabilities = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")]
    return [left, os.getcwd(), os.getuid() == 0, capabilities, sorted(os.environ), os.getppid()]


@needs_bubblewrap
def test_a_room_is_empty_has_loopback_and_no_rights(building: Building, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice: what the first room leaves behind is not in the second.

    A course or an environment below /tmp is there, read-only: then /tmp is no scratch folder.
    """
    ours = {path.parts[2] for path in bubblewrap._readable() if Path("/tmp") in path.parents}
    monkeypatch.setenv("GRADING_TOKEN", "secret")
    for _ in range(2):
        room = building.open()
        run = _run(room, _look_around)
        room.close()
        assert run.ok, run.outcome
        left, place, is_root, capabilities, names, parent = run.results[0]
        left = [name for name in left if name not in ours]
        assert (left, place, is_root, parent) == ([], bubblewrap.SCRATCH, False, 1)
        assert [line.split()[1].strip("0") for line in capabilities] == [""]
        assert "GRADING_TOKEN" not in names


def _leave_a_process() -> int:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    return os.getpid()


@needs_bubblewrap
def test_everything_in_a_room_ends_with_it(building: Building) -> None:
    room = building.open()
    assert building.is_nested, "where namespaces in namespaces are forbidden this is another test"
    assert _run(room, _leave_a_process, 2).ok
    first = psutil.Process(room.pid)
    inside = [first, *first.children(recursive=True)]
    room.close()
    assert psutil.wait_procs(inside, timeout=10)[1] == []


def _list_processes() -> list[str]:
    return sorted(name for name in os.listdir("/proc") if name.isdigit())


@needs_bubblewrap
def test_ranks_are_known_outside_by_the_kernels_word(building: Building) -> None:
    room = building.open()
    try:
        inside = [int(name) for name in _run(room, _list_processes).results[0]]
        assert inside[0] == 1
        assert len(inside) == 2
        assert room.pids_here((12345,)) == (0,)
        assert psutil.pid_exists(room.pid)
    finally:
        room.close()


def test_without_bubblewrap_grading_refuses_and_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    bubblewrap.why_not.cache_clear()
    try:
        with pytest.raises(SandboxError, match=r"bubblewrap is not installed.*--isolation limits.*your files"):
            bubblewrap.require("bubblewrap")
        with JobHost("bubblewrap") as host, pytest.raises(SandboxError):
            host._get_ready(lambda text: None)
        bubblewrap.require("limits")
    finally:
        bubblewrap.why_not.cache_clear()


def test_a_bubblewrap_that_may_not_do_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    bubblewrap.why_not.cache_clear()
    try:
        assert bubblewrap.why_not().endswith("bwrap: No permissions to create new namespace")
    finally:
        bubblewrap.why_not.cache_clear()


def test_a_room_that_takes_too_much_memory_is_ended() -> None:
    ended = []
    now = watch.Watch(os.getpid(), limits.Limits(free_memory_bytes=1 << 60), lambda: ended.append(True))
    for _ in range(100):
        if ended:
            break
        time.sleep(0.05)
    now.stop()
    assert ended == [True]
    assert "running out of memory" in now.why


def test_a_family_is_all_that_the_kernel_lists_below_a_process() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 1000 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.family(os.getpid())
        assert {child.pid, *(p.pid for p in psutil.Process(child.pid).children())} <= set(found)
        assert sorted(processes.family(child.pid)) == sorted(processes.descendants(child.pid))
    finally:
        processes.kill_tree(child.pid)
        child.communicate()


def test_limits_alone_end_what_they_started() -> None:
    """Without bubblewrap: the same rooms, without walls."""
    made = Building("limits")
    try:
        room = made.open()
        run = _run(room, _leave_a_process, 2)
        inside = psutil.Process(room.pid).children(recursive=True)
        room.close()
        assert run.ok, run.outcome
        assert not made.is_nested
        assert psutil.wait_procs(inside, timeout=10)[1] == []
    finally:
        made.close()
