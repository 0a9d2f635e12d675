"""One sandbox for all attacks of a session, and things outside that must stay as they are."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.build import tree
from autograder.grading import JobHost, Params, check_exercise
from tests import leaks
from tests.attacks.table import EXERCISE, honest
from tests.autograder.small import COURSE, write_course

ONE_CASE = Params(case="world_size=3,length=12")


@dataclass
class Outside:
    """What an attack must not reach: files, a process, a port that listens."""

    folder: Path
    process: subprocess.Popen[bytes]
    listener: socket.socket

    def digest(self) -> str:
        """Names and bytes of the files."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()

    @property
    def names(self) -> dict[str, object]:
        """What attacks are told about it."""
        root = Path(__file__).resolve().parents[2]
        port = self.listener.getsockname()[1]
        return {"canary": self.folder, "pid": self.process.pid, "port": port, "secret": "canary seed", "root": root}

    def was_reached(self) -> bool:
        """Whether somebody connected, or the process ended."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return self.process.poll() is not None
        return True


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "grading_seed").write_text("canary seed")
    (folder / "gradebook.db").write_bytes(b"")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    waits = [sys.executable, "-c", "import signal; signal.pause()", "canary seed"]
    with subprocess.Popen(waits, env={"LOCKSTEP_SEED": "canary seed"}) as process:
        yield Outside(folder, process, listener)
        process.kill()
    listener.close()


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course. Its lab is the real exercise."""
    root = write_course(tmp_path_factory.mktemp("course"), course=COURSE.replace("deadline_s: 60", "deadline_s: 120"))
    tree.write(root, tree.generate(root))
    return root


@pytest.fixture(scope="session")
def sandboxed(course: Path) -> Iterator[JobHost]:
    """A job whose ranks run behind bubblewrap, started here so that it belongs to no single test."""
    with JobHost("bubblewrap") as host:
        check_exercise(honest("right"), EXERCISE, ONE_CASE, host=host, root=course, room="warm")
        leaks.HOSTS.append(lambda: host.pid)
        yield host
        leaks.HOSTS.clear()
