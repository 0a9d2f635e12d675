"""What threads hand over carries a clock: events, queues, semaphores and barriers that of whoever set them, put the
item, gave the place back, or came last. Whether a thread really had to wait depends on the machine, its clock does not.

Not here: `SimpleQueue`, which is C, and locks, whose order is the machine's.
"""

from __future__ import annotations

import heapq
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from simulator.rank.threads import catch_up, registered

Put = tuple[int, int]  # id of an item, and when it was put


def install() -> None:
    """Patch the standard library in this rank."""
    _patch_event()
    _patch_queue(queue.Queue, lambda puts, _: puts.popleft())
    _patch_queue(queue.LifoQueue, lambda puts, _: puts.pop())
    _patch_queue(queue.PriorityQueue, _take_of)
    _patch_semaphore()
    _patch_barrier()


def _now_ns() -> int:
    thread = registered()
    return 0 if thread is None else thread.now_ns


def _not_before(now_ns: int) -> None:
    if (thread := registered()) is not None:
        catch_up(thread, now_ns)


def _patch_event() -> None:
    wait = threading.Event.wait

    def patched_set(self: threading.Event) -> None:
        with self._cond:  # type: ignore[attr-defined]
            if not self._flag:  # type: ignore[attr-defined]
                self.__dict__["_set_ns"] = _now_ns()
            self._flag = True  # type: ignore[attr-defined]
            self._cond.notify_all()  # type: ignore[attr-defined]

    def patched_wait(self: threading.Event, timeout: float | None = None) -> bool:
        is_set = wait(self, timeout)
        if is_set and not getattr(self._cond, "is_ours", False):  # type: ignore[attr-defined]
            _not_before(self.__dict__.get("_set_ns", 0))
        return is_set

    threading.Event.set = patched_set  # type: ignore[method-assign]
    threading.Event.wait = patched_wait  # type: ignore[method-assign]


def _patch_queue(kind: Any, take: Callable[[deque[Put], Any], Put]) -> None:
    """`_put` and `_get` run under the queue's lock, in the order of its items. `take` finds when an item was put."""
    put, get = kind._put, kind._get

    def puts(self: Any) -> deque[Put]:
        found: deque[Put] | None = self.__dict__.get("_puts")
        if found is None:  # items from before the run were always there
            found = self.__dict__["_puts"] = deque((id(item), 0) for item in self.queue)
        return found

    def patched_put(self: Any, item: Any) -> None:
        if self.maxsize > 0:  # it takes the place of an item that was taken out before
            places: deque[int] = self.__dict__.setdefault("_places_ns", deque([0] * self.maxsize))
            _not_before(places.popleft())
        puts(self).append((id(item), _now_ns()))
        put(self, item)

    def patched_get(self: Any) -> Any:
        known = puts(self)
        item = get(self)
        _not_before(take(known, item)[1])
        if self.maxsize > 0:
            self.__dict__["_places_ns"].append(_now_ns())
        return item

    kind._put, kind._get = patched_put, patched_get


def _take_of(puts: deque[Put], item: Any) -> Put:
    """The first put of this very item."""
    first = min(entry for entry in puts if entry[0] == id(item))
    puts.remove(first)
    return first


def _patch_semaphore() -> None:
    """A place is as old as its release; the oldest is taken first."""
    acquire = threading.Semaphore.acquire

    def places(self: threading.Semaphore) -> list[int]:
        """When each free place became free, a heap."""
        known: list[int] = self.__dict__.setdefault("_places_ns", [0] * self._value)
        return known

    def patched_acquire(self: threading.Semaphore, blocking: bool = True, timeout: float | None = None) -> bool:
        free = places(self)
        if not acquire(self, blocking, timeout):
            return False
        freed_ns = heapq.heappop(free)
        if blocking and timeout != 0:  # a look that does not wait sees what is there by the real clock
            _not_before(freed_ns)
        return True

    def releasing(release: Callable[..., None]) -> Callable[..., None]:
        def patched_release(self: threading.Semaphore, n: int = 1) -> None:
            free, now_ns = places(self), _now_ns()
            for _ in range(n):  # before somebody can take it
                heapq.heappush(free, now_ns)
            try:
                release(self, n)
            except ValueError:  # more than there were
                for _ in range(n):
                    free.remove(now_ns)
                heapq.heapify(free)
                raise

        return patched_release

    threading.Semaphore.acquire = threading.Semaphore.__enter__ = patched_acquire  # type: ignore[method-assign]
    for kind in (threading.Semaphore, threading.BoundedSemaphore):
        kind.release = releasing(kind.release)  # type: ignore[method-assign]


def _patch_barrier() -> None:
    """Everybody leaves at the time of the last one who came. Both methods run under the barrier's lock, and nobody
    enters before all have left.
    """
    barrier: Any = threading.Barrier
    enter, leave = barrier._enter, barrier._exit

    def patched_enter(self: Any) -> None:
        enter(self)
        self.__dict__["_last_ns"] = max(self.__dict__.get("_last_ns", 0), _now_ns())

    def patched_exit(self: Any) -> None:
        _not_before(self.__dict__["_last_ns"])
        if self._count == 0:
            self.__dict__["_last_ns"] = 0
        leave(self)

    barrier._enter, barrier._exit = patched_enter, patched_exit
