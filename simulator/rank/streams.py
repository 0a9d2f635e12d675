"""Virtual streams and events: where in virtual time the device of this rank is.

torch.cpu has `Stream` and `Event` classes that do nothing; FSDP2 uses them on CPU exactly as it uses CUDA's on a GPU.
In a rank they are these: work that is charged goes to the current stream and starts when the host has launched it and
the stream is free; the host does not wait for it. So prefetched gathers and reduce-scatters overlap with compute as
they would on a GPU. The host waits only where it would there: a value is read (`item()`), an event or a stream is
synchronised, a barrier, and, so that nobody has to write a synchronisation that a CPU does not need, a clock is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

COMPUTE = "compute"


class Stream:
    """A queue of device work; `ready_ns` is when the last piece of it ends."""

    def __init__(self, priority: int = 0, *, name: str = "") -> None:
        self.ready_ns = 0
        self.priority = priority
        self.name = name or f"stream:{_next_number()}"

    def wait_stream(self, stream: Stream) -> None:
        """What is queued later waits for what `stream` has now."""
        self._wait_until(stream.ready_ns)

    def wait_event(self, event: Event | None) -> None:
        if event is not None:
            self._wait_until(event.at_ns)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return bool(self.ready_ns <= _thread().host_ns)

    def synchronize(self) -> None:
        """The host waits for the stream."""
        _thread().advance(self.ready_ns)

    def _wait_until(self, at_ns: int) -> None:
        _on_stall(self, at_ns)
        self.ready_ns = max(self.ready_ns, at_ns)


class Event:
    """A point in a stream. `elapsed_time` is in milliseconds, as CUDA's."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.at_ns = 0

    def record(self, stream: Stream | None = None) -> None:
        thread = _thread()
        self.at_ns = max(thread.host_ns, (stream or thread.stream).ready_ns)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or _thread().stream).wait_event(self)

    def query(self) -> bool:
        return bool(self.at_ns <= _thread().host_ns)

    def synchronize(self) -> None:
        _thread().advance(self.at_ns)

    def elapsed_time(self, end: Event) -> float:
        return (end.at_ns - self.at_ns) / 1e6


class StreamContext(AbstractContextManager[None]):
    """``with torch.cpu.stream(s):`` - work goes to `s`."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: list[Stream] = []

    def __enter__(self) -> None:
        thread = _thread()
        self._before.append(thread.stream)
        thread.stream = self.stream or thread.stream

    def __exit__(self, *_: Any) -> None:
        _thread().stream = self._before.pop()


_num_streams = 0
_thread: Callable[[], Any]
_on_stall: Callable[[Stream, int], None]


def _next_number() -> int:
    global _num_streams
    _num_streams += 1
    return _num_streams


def install(thread: Callable[[], Any], on_stall: Callable[[Stream, int], None]) -> None:
    """Put them in the place of torch.cpu's. `thread()` is the registered thread that runs; `on_stall(stream, until)`
    is told before a stream waits.
    """
    import torch

    global _thread, _on_stall
    _thread, _on_stall = thread, on_stall
    cpu: Any = torch.cpu
    cpu.Stream, cpu.Event, cpu.StreamContext, cpu.stream = Stream, Event, StreamContext, StreamContext
    cpu.current_stream = lambda device=None: thread().stream
    cpu.synchronize = lambda device=None: thread().advance(thread().now_ns)
