"""The forkserver of ranks: torch is imported once, every rank is a fork of it that never ran user code before.

It serves one caller over a socket and lives as long as that socket: when the caller ends, by whatever death, it kills
what it started and ends too. As a subreaper it also inherits, and kills at the end of a run, whatever a rank left
behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import NoReturn

import msgspec

from simulator import wire

_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_S = 0.3  # without a request for this long, nobody waits


class Fork(msgspec.Struct, array_like=True, tag="fork"):
    """Start ranks; with the message come two descriptors a rank: its link, its output pipe."""

    num_ranks: int


class Kill(msgspec.Struct, array_like=True, tag="kill"):
    """SIGKILL these processes and what they started."""

    pids: tuple[int, ...]


class Sweep(msgspec.Struct, array_like=True, tag="sweep"):
    """End of a run: kill and reap everything that is left, then say Swept."""


class Ready(msgspec.Struct, array_like=True, tag="ready"):
    pass


class Forked(msgspec.Struct, array_like=True, tag="forked"):
    pids: tuple[int, ...]


class Exited(msgspec.Struct, array_like=True, tag="exited"):
    """`code` as subprocess has it: negative for a signal."""

    pid: int
    code: int


class Swept(msgspec.Struct, array_like=True, tag="swept"):
    pass


Reply = Ready | Forked | Exited | Swept

decode_request = msgspec.msgpack.Decoder(Fork | Kill | Sweep).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


class Zygote:
    """`later`: modules to import while nobody waits. `on_fork` is called first in every rank."""

    def __init__(
        self, caller: socket.socket, later: tuple[str, ...] = (), on_fork: Callable[[], None] | None = None
    ) -> None:
        self.caller, self.on_fork = caller, on_fork
        self.later = deque(later)
        self.has_forked = False
        self.children: set[int] = set()
        self.frames = wire.FrameBuffer()
        self.fds: list[int] = []
        self.wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.inherited: tuple[int, ...] = (self.wake_read, wake_write)

    def serve(self) -> None:
        self._say(Ready())
        parent = os.getppid()
        with selectors.DefaultSelector() as selector:
            selector.register(self.caller, selectors.EVENT_READ)
            selector.register(self.wake_read, selectors.EVENT_READ)
            self.inherited += (selector.fileno(),)
            while os.getppid() == parent:
                may_import = self.later and not self.children
                ready = selector.select(_PAUSE_S if may_import else 1.0)
                if may_import and not ready:
                    self._import_one()
                for key, _ in ready:
                    if key.fileobj is not self.caller:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self.wake_read, 512)
                    elif not self._serve_request():
                        return
                self._reap()

    def _serve_request(self) -> bool:
        """Handle what the caller sent; False when it is gone."""
        data, fds, _, _ = socket.recv_fds(self.caller, 1 << 16, 253)
        self.fds += fds
        for body in self.frames.feed(data):
            match decode_request(body):
                case Fork(num_ranks):
                    self._fork(num_ranks)
                case Kill(pids):
                    for pid in self.children.intersection(pids):
                        _kill_session(pid)
                case Sweep():
                    self.sweep()
                    self._say(Swept())
        return bool(data)

    def _import_one(self) -> None:
        importlib.import_module(self.later.popleft())

    def _fork(self, num_ranks: int) -> None:
        while self.later and self.has_forked:  # the first run is served at once; who runs more has them all imported
            self._import_one()
        self.has_forked = True
        fds, self.fds = self.fds[: 2 * num_ranks], self.fds[2 * num_ranks :]
        pids = [self._fork_rank(fds, rank) for rank in range(num_ranks)]
        for fd in fds:
            os.close(fd)
        self._say(Forked(tuple(pids)))

    def _fork_rank(self, fds: list[int], rank: int) -> int:
        link, output = fds[2 * rank : 2 * rank + 2]
        pid = os.fork()
        if pid:
            self.children.add(pid)
            return pid
        try:
            self._become_rank([fd for fd in fds if fd != link], link, output)
        finally:
            os._exit(71)  # only a bug of ours leads here

    def _become_rank(self, fds: list[int], link: int, output: int) -> NoReturn:
        from simulator.rank import main

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        main.prepare_process()
        if self.on_fork:
            self.on_fork()
        os.dup2(output, 1)
        os.dup2(output, 2)
        for fd in (*fds, *self.inherited):
            os.close(fd)
        self.caller.close()
        main.live(socket.socket(fileno=link))

    def _reap(self) -> None:
        """Report ended children; what is left of their sessions ends with them."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid in self.children:
                _kill_session(ended.si_pid)
            _, status = os.waitpid(ended.si_pid, 0)
            if ended.si_pid in self.children:
                self.children.discard(ended.si_pid)
                self._say(Exited(ended.si_pid, os.waitstatus_to_exitcode(status)))

    def sweep(self) -> None:
        """Kill every child, also those that became ours when a rank died, until there is none."""
        while children := _children():
            for pid in children:
                _kill_session(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(-1, 0)
                if pid in self.children:
                    self.children.discard(pid)
                    self._say(Exited(pid, os.waitstatus_to_exitcode(status)))

    def _say(self, reply: Reply) -> None:
        with contextlib.suppress(OSError):  # the caller is gone: the main loop will see it
            self.caller.sendall(wire.frame(reply))


def _kill_session(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _children() -> list[int]:
    path = f"/proc/self/task/{os.getpid()}/children"
    if not os.path.exists(path):  # not Linux: only what we forked ourselves is known
        return []
    with open(path) as children:
        return [int(pid) for pid in children.read().split()]


def main(fd: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    from simulator.rank.preload import LATER

    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)  # the caller reads our stderr only to learn why we did not start
    os.close(quiet)
    zygote = Zygote(socket.socket(fileno=fd), LATER)
    try:
        zygote.serve()
    finally:
        zygote.sweep()
    os._exit(0)  # the interpreter takes seconds of CPU to take torch down, and nothing is left to clean up
