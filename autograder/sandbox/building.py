"""The trusted side of the sandbox: start the nursery, open rooms, end them."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
from pathlib import Path

import msgspec

from autograder.errors import SandboxError
from autograder.sandbox import bubblewrap, processes, watch
from autograder.sandbox.limits import Isolation, Limits
from autograder.sandbox.messages import Open, decode_opened
from simulator import launch
from simulator.errors import SimulatorError

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of a sender, as the kernel says


class Building:
    """One nursery and its rooms; one room at a time. `isolation` "limits": no walls, only limits and process groups.

    Raises:
        SandboxError: bubblewrap cannot be used here, or the nursery does not start.
    """

    def __init__(self, isolation: Isolation, limits: Limits | None = None) -> None:
        self.isolation, self.limits = isolation, limits or Limits()
        self.is_nested = isolation == "bubblewrap"  # until the kernel says no
        self._nursery: launch.Helper | None = None
        self._is_ready = False
        self.start()

    def start(self) -> None:
        """Start the nursery; `wait_ready` and `open` wait for it."""
        prefix = bubblewrap.command(self.limits) if self.isolation == "bubblewrap" else ()
        self._nursery = launch.Helper("from autograder.sandbox import nursery; nursery.main({fd})", prefix)
        self._is_ready = False

    def wait_ready(self) -> None:
        if not self._is_ready:
            self._answer()
            self._is_ready = True

    def open(self) -> Room:
        """A new room. Where the kernel refuses namespaces inside namespaces, the whole building is new every time."""
        if self._nursery is None or not self._nursery.is_alive:
            self.close()
            self.start()
        self.wait_ready()
        room = self._open(apart=self.is_nested)
        if room is None:
            self.is_nested = False
            room = self._open(apart=False)
        if room is None:
            raise SandboxError("the sandbox opens no room for a submission")
        return room

    def _open(self, apart: bool) -> Room | None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        wanted = Open(self.limits, apart, alone=self.isolation == "bubblewrap")
        assert self._nursery is not None
        self._nursery.send(wanted, [theirs.fileno()])
        theirs.close()
        if self._answer():
            ours.close()
            return None
        return Room(ours, self)

    def _answer(self) -> str:
        assert self._nursery is not None
        try:
            return decode_opened(self._nursery.receive()).problem
        except (SimulatorError, msgspec.MsgspecError) as error:
            raise SandboxError(f"the sandbox does not start: {error}") from None

    def room_ended(self) -> None:
        """Called by a room that is closed: behind walls that it shared with the nursery, it takes the nursery along."""
        if self.isolation == "bubblewrap" and not self.is_nested:
            self.close()

    def close(self) -> None:
        """End everything inside. The next `open` starts anew."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            processes.kill_tree(nursery.process.pid)
            nursery.close()


class Room(launch.Channel):
    """The forkserver of one submission's ranks, as `simulator.launch.World` wants it."""

    def __init__(self, sock: socket.socket, building: Building) -> None:
        super().__init__(sock)
        self._building = building
        data, ancillary, _, _ = sock.recvmsg(1 << 12, socket.CMSG_SPACE(_CREDENTIALS.size))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        #: The room's first process, as this side sees it: the kernel's word, not the room's.
        self.pid = next(
            (_CREDENTIALS.unpack(said)[0] for _, kind, said in ancillary if kind == socket.SCM_CREDENTIALS), 0
        )
        if not self.pid:
            raise SandboxError("the sandbox opened a room and it ended at once")
        self._bodies += self._frames.feed(data)
        self._watch = watch.Watch(self.pid, building.limits, self.end)

    @property
    def place(self) -> tuple[str, dict[str, str]]:
        """Working directory and environment of ranks here."""
        if self._building.isolation == "bubblewrap":
            return bubblewrap.SCRATCH, dict(bubblewrap.ENVIRONMENT)
        return "/", bubblewrap.ENVIRONMENT | {"HOME": "/nonexistent", "TMPDIR": tempfile.gettempdir()}

    @property
    def why_ended(self) -> str:
        """What the room used too much of, or ""."""
        return self._watch.why

    def pids_here(self, pids: tuple[int, ...]) -> tuple[int, ...]:
        inside = {_innermost(pid): pid for pid in processes.children(self.pid)}
        return tuple(inside.get(pid, 0) for pid in pids)

    def end(self) -> None:
        """Kill every process of the room."""
        if self._building.is_nested:
            watch.kill(self.pid)  # the first of its namespace: the kernel takes the others along
        else:
            processes.kill_tree(self.pid)

    def close(self) -> None:
        self._watch.stop()
        self.end()
        self.socket.close()
        self._building.room_ended()


def _innermost(pid: int) -> int:
    """The id by which a process knows itself; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in status if line.startswith("NSpid:")).split()[-1])
    return 0
