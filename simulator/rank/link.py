"""The rank's end of the socket to the coordinator.

Announcements are buffered and travel with the next message that waits: one round trip a wait, none an issue. Any thread
may wait; one of them reads the socket for all.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

from simulator import wire

ORPHANED = 70  # exit status of a rank whose coordinator is gone
_NO_END = (wire.Idle, wire.Busy)


class Link:
    """`on_reply` is called, in the thread that reads, for every reply in order."""

    def __init__(self, sock: socket.socket, on_reply: Callable[[wire.Reply], None]) -> None:
        self._sock, self._on_reply = sock, on_reply
        self._frames = wire.FrameBuffer()
        self._inbox = memoryview(bytearray(1 << 16))  # kept: memory for every call of recv would be page faults
        self._lock = threading.RLock()
        self._condition, self._num_waiting = threading.Condition(self._lock), 0
        self._condition.__dict__["is_ours"] = True  # not a wait of user code: see simulator.rank.threads
        self._reading = False
        self.buffer: list[wire.Record] = []
        #: By thread: the compute since its last record, still growing. A thread's records are in its program order,
        #: whatever the other threads do meanwhile.
        self.stretches: dict[str | None, wire.Note] = {}

    def note(self, record: wire.Record) -> None:
        """Buffer a record until the next `send`."""
        with self._lock:
            self._append(record)

    def close_stretch(self, thread: str) -> None:
        """The thread's stretch of compute has ended."""
        with self._lock:
            if stretch := self.stretches.pop(thread, None):
                self.buffer.append(stretch)

    def _append(self, record: wire.Record) -> None:
        # Whether a thread had to wait for another one (Idle, Busy) depends on the machine: that ends no stretch.
        if self.stretches and type(record) not in _NO_END:
            thread = "0" if type(record) is wire.Leave else getattr(record, "thread", None)
            if stretch := self.stretches.pop(thread, None):
                self.buffer.append(stretch)
        self.buffer.append(record)

    def send(self, *records: wire.Record) -> None:
        """Send what is buffered and these records, without waiting for an answer."""
        with self._lock:
            for record in records:
                self._append(record)
            frame = wire.frame(self.buffer)
            self.buffer.clear()
            try:
                self._sock.sendall(frame)
            except OSError:
                os._exit(ORPHANED)

    def wait_until(self, is_resolved: Callable[[], bool]) -> None:
        """Read replies until `is_resolved()`; a vanished coordinator ends the process."""
        with self._lock:
            while not is_resolved():
                if self._reading:
                    self._num_waiting += 1
                    self._condition.wait()
                    self._num_waiting -= 1
                else:
                    self._read_once()

    def _read_once(self) -> None:
        self._reading = True
        self._lock.release()
        try:
            num_bytes = self._sock.recv_into(self._inbox)
        except OSError:
            num_bytes = 0
        finally:
            self._lock.acquire()
            self._reading = False
        if not num_bytes:
            os._exit(ORPHANED)
        for body in self._frames.feed(self._inbox[:num_bytes]):
            for reply in wire.decode_replies(body):
                self._on_reply(reply)
        if self._num_waiting:
            self._condition.notify_all()
