"""The two helper processes behind `run`: the forkserver of ranks and the coordinator. Started at first use, kept warm,
gone with us.

Both live on a socket that only this process holds, so that they end when it does, even by SIGKILL. `launcher` is the
seam for a grader: the command that starts the rank side can be wrapped in a sandbox, while the coordinator stays
outside.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from simulator import wire
from simulator.coordinator import protocol
from simulator.errors import SimulatorError
from simulator.rank import zygote

_ROOT = str(Path(__file__).resolve().parent.parent)
#: One thread a rank: with two, four ranks on two cores are an order of magnitude slower. A fixed hash seed: the same
#: set order every run.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class Helper:
    """A child process and the socket that it lives on."""

    def __init__(self, code: str, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        theirs = _above_standard_streams(theirs)
        self.socket, self._frames, self._bodies = ours, wire.FrameBuffer(), list[bytes]()
        program = f"import sys; sys.path.insert(0, {_ROOT!r}); {code.format(fd=theirs.fileno())}"
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-P", "-c", program],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the caller
            env={**os.environ, **_ENVIRONMENT, **(environment or {})},
        )
        theirs.close()

    def send(self, message: Any, fds: list[int] | None = None) -> None:
        data = wire.frame(message)
        try:
            if fds:
                socket.send_fds(self.socket, [data], fds)
            else:
                self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def feed(self) -> list[bytes]:
        """Read once; the frames that came. Raises `SimulatorError` with the process's last words when it died."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise self._ended()
        return self._frames.feed(data)

    def receive(self) -> bytes:
        """The next frame."""
        while not self._bodies:
            self._bodies += self.feed()
        return self._bodies.pop(0)

    def _ended(self) -> SimulatorError:
        assert self.process.stderr is not None
        lines = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        last_words = lines[-1] if lines else f"exit status {self.process.wait()}"
        return SimulatorError(f"a helper process of the simulator ended unexpectedly: {last_words}")

    def close(self) -> None:
        self.socket.close()
        if self.process.stderr:
            self.process.stderr.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
            return
        self.process.kill()
        self.process.wait()


def _above_standard_streams(sock: socket.socket) -> socket.socket:
    """With stdin closed a new socket may be descriptor 0, which the child's own stdin would replace."""
    copy = socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    sock.close()
    return copy


class World:
    """One forkserver and one coordinator. `lock`: one run at a time."""

    def __init__(self, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        self.lock = threading.Lock()
        self.owner = os.getpid()
        self.ranks = Helper("from simulator.rank import zygote; zygote.main({fd})", prefix, environment)
        self.coordinator = Helper("sys.argv = ['', '{fd}']; from simulator.coordinator import host; host.main()")
        self._ready = False

    def wait_ready(self) -> None:
        if not self._ready:
            assert isinstance(zygote.decode_reply(self.ranks.receive()), zygote.Ready)
            self._ready = True

    def fork(self, links: list[socket.socket], outputs: list[int]) -> tuple[int, ...]:
        """Start one rank for each link; their process ids."""
        fds = [fd for link, output in zip(links, outputs, strict=True) for fd in (link.fileno(), output)]
        self.ranks.send(zygote.Fork(len(links)), fds)
        reply = zygote.decode_reply(self.ranks.receive())
        assert isinstance(reply, zygote.Forked)
        return reply.pids

    def begin(self, job: protocol.Job, links: list[socket.socket]) -> None:
        """Hand the other ends of the ranks' links to the coordinator."""
        self.coordinator.send(job, [link.fileno() for link in links])

    def kill(self, pids: tuple[int, ...]) -> None:
        self.ranks.send(zygote.Kill(pids))

    def sweep(self) -> dict[int, int]:
        """Wait until nothing of the run is left; exit codes by process id, negative for a signal."""
        self.ranks.send(zygote.Sweep())
        codes: dict[int, int] = {}
        while True:
            match zygote.decode_reply(self.ranks.receive()):
                case zygote.Exited(pid, code):
                    codes[pid] = code
                case zygote.Swept():
                    return codes

    def close(self) -> None:
        self.coordinator.close()
        self.ranks.close()


_world: World | None = None
_world_lock = threading.Lock()
_other_world: ContextVar[World | None] = ContextVar("other_world", default=None)


def world() -> World:
    """The warm world of this process, started if need be; inside `new_world`, that one."""
    global _world
    if (other := _other_world.get()) is not None:
        return other
    with _world_lock:
        if _world is not None and (_world.owner != os.getpid() or not _is_alive(_world)):
            if _world.owner == os.getpid():
                _world.close()
            _world = None
        if _world is None:
            _world = World()
        return _world


@contextlib.contextmanager
def new_world(environment: dict[str, str]) -> Iterator[None]:
    """Runs of this thread happen in a new forkserver with these variables, which ends with the block."""
    other = World(environment=environment)
    token = _other_world.set(other)
    try:
        yield
    finally:
        _other_world.reset(token)
        other.close()


def _is_alive(candidate: World) -> bool:
    return candidate.ranks.process.poll() is None and candidate.coordinator.process.poll() is None


def world_pids() -> tuple[int, ...]:
    """Processes that outlive a run on purpose."""
    if _world is None or _world.owner != os.getpid():
        return ()
    return (_world.ranks.process.pid, _world.coordinator.process.pid)


def shutdown() -> None:
    """End the helper processes; the next run starts new ones."""
    global _world
    with _world_lock:
        if _world is not None and _world.owner == os.getpid():
            _world.close()
        _world = None


atexit.register(shutdown)
