"""The two helper processes behind `run`: the forkserver of ranks and the coordinator. Started at first use, kept warm,
gone with us.

Both live on a socket that only this process holds, so that they end when it does, even by SIGKILL. `World(ranks=...)`
is the seam for a grader: it hands in a forkserver that runs in a sandbox, while the coordinator stays outside.
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
from typing import Any, TypeVar

import msgspec

from simulator import wire
from simulator.coordinator import protocol
from simulator.errors import SimulatorError
from simulator.rank import zygote

_Reply = TypeVar("_Reply")
_ROOT = str(Path(__file__).resolve().parent.parent)
#: One thread a rank: with two, four ranks on two cores are an order of magnitude slower. A fixed hash seed: the same
#: set order every run.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class Channel:
    """Frames to and from a helper over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket, self._frames, self._bodies = sock, wire.FrameBuffer(), list[bytes]()

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
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            raise self._ended()
        try:
            return self._frames.feed(data)
        except ValueError as error:
            raise SimulatorError(f"a helper process of the simulator does not speak its protocol: {error}") from None

    def receive(self) -> bytes:
        """The next frame."""
        while not self._bodies:
            self._bodies += self.feed()
        return self._bodies.pop(0)

    def pids_here(self, pids: tuple[int, ...]) -> tuple[int, ...]:
        """Process ids that the helper named, as this process sees them; 0 for one that is gone."""
        return pids

    def _ended(self) -> SimulatorError:
        return SimulatorError("a helper process of the simulator ended unexpectedly")

    @property
    def is_alive(self) -> bool:
        return self.socket.fileno() >= 0

    @property
    def pids(self) -> tuple[int, ...]:
        """The process that is ours to end."""
        return ()

    def close(self) -> None:
        self.socket.close()


class Helper(Channel):
    """A child process and the socket that it lives on."""

    def __init__(self, code: str, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        theirs = _above_standard_streams(theirs)
        super().__init__(ours)
        program = f"import sys; sys.path.insert(0, {_ROOT!r}); {code.format(fd=theirs.fileno())}"
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-P", "-c", program],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the caller
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
        )
        theirs.close()

    def _ended(self) -> SimulatorError:
        assert self.process.stderr is not None
        lines = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        last_words = lines[-1] if lines else f"exit status {self.process.wait()}"
        return SimulatorError(f"a helper process of the simulator ended unexpectedly: {last_words}")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.process.pid,)

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


def zygote_reply(body: bytes) -> zygote.Reply:
    """What a forkserver said. Raises `SimulatorError` for anything that none of ours says."""
    try:
        return zygote.decode_reply(body)
    except msgspec.MsgspecError as error:
        raise SimulatorError(f"the forkserver of the ranks does not speak its protocol: {error}") from None


class World:
    """One forkserver and one coordinator. `lock`: one run at a time.

    `ranks`: a forkserver that somebody else started; it may be hostile, so what it says may raise `SimulatorError`.
    """

    def __init__(self, environment: dict[str, str] | None = None, ranks: Channel | None = None) -> None:
        self.lock = threading.Lock()
        self.owner = os.getpid()
        self.limit_bytes = wire.MAX_FRAME_BYTES  # what a rank may send in a run
        self.cwd: str | None = None  # of ranks; None: this process's own, as it is when a run starts
        self.environ: dict[str, str] | None = None  # likewise
        self.ranks: Channel = ranks or Helper(
            "from simulator.rank import zygote; zygote.main({fd})", environment=environment
        )
        self.coordinator = Helper("sys.argv = ['', '{fd}']; from simulator.coordinator import host; host.main()")
        self._ready = False

    def move_to(self, ranks: Channel) -> None:
        """The next runs happen in another forkserver. The old one is the caller's to close."""
        self.ranks, self._ready = ranks, False

    def wait_ready(self) -> None:
        if not self._ready:
            self._expect(self._hear(), zygote.Ready)
            self._ready = True

    def _hear(self) -> zygote.Reply:
        return zygote_reply(self.ranks.receive())

    @staticmethod
    def _expect(reply: zygote.Reply, kind: type[_Reply]) -> _Reply:
        if not isinstance(reply, kind):
            raise SimulatorError(f"the forkserver of the ranks said {type(reply).__name__} out of turn")
        return reply

    def fork(self, links: list[socket.socket], outputs: list[int]) -> tuple[int, ...]:
        """Start one rank for each link; their process ids."""
        fds = [fd for link, output in zip(links, outputs, strict=True) for fd in (link.fileno(), output)]
        self.ranks.send(zygote.Fork(len(links)), fds)
        pids = self._expect(self._hear(), zygote.Forked).pids
        if len(pids) != len(links):
            raise SimulatorError(f"the forkserver of the ranks started {len(pids)} of {len(links)} ranks")
        return pids

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
            match self._hear():
                case zygote.Swept():
                    return codes
                case reply:
                    exited = self._expect(reply, zygote.Exited)
                    codes[exited.pid] = exited.code

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
def within(other: World) -> Iterator[None]:
    """Runs of this thread happen in `other`, which stays the caller's to close."""
    token = _other_world.set(other)
    try:
        yield
    finally:
        _other_world.reset(token)


@contextlib.contextmanager
def new_world(environment: dict[str, str]) -> Iterator[None]:
    """Runs of this thread happen in a new forkserver with these variables, which ends with the block."""
    other = World(environment)
    try:
        with within(other):
            yield
    finally:
        other.close()


def _is_alive(candidate: World) -> bool:
    return candidate.ranks.is_alive and candidate.coordinator.is_alive


def world_pids() -> tuple[int, ...]:
    """Processes that outlive a run on purpose."""
    if _world is None or _world.owner != os.getpid():
        return ()
    return (*_world.ranks.pids, *_world.coordinator.pids)


def shutdown() -> None:
    """End the helper processes; the next run starts new ones."""
    global _world
    with _world_lock:
        if _world is not None and _world.owner == os.getpid():
            _world.close()
        _world = None


atexit.register(shutdown)
