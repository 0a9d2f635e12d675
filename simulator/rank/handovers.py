"""Events and queues carry the clock of whoever set them, or put the item: whether a thread really had to wait depends
on the machine, its clock then does not. Not here: priority queues and `SimpleQueue`, semaphores and barriers.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from simulator.rank.threads import catch_up, registered


def install() -> None:
    """Patch the standard library in this rank."""
    _patch_event()
    for kind in (queue.Queue, queue.LifoQueue):
        _patch_queue(kind)


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


def _patch_queue(kind: Any) -> None:
    """`_put` and `_get` run under the queue's lock, in the order of its items."""
    put, get = kind._put, kind._get
    take: Callable[[deque[int]], int] = deque.pop if kind is queue.LifoQueue else deque.popleft

    def patched_put(self: Any, item: Any) -> None:
        if self.maxsize > 0:  # it takes the place of an item that was taken out before
            places: deque[int] = self.__dict__.setdefault("_places_ns", deque([0] * self.maxsize))
            _not_before(places.popleft())
        self.__dict__.setdefault("_put_ns", deque()).append(_now_ns())
        put(self, item)

    def patched_get(self: Any) -> Any:
        item = get(self)
        _not_before(take(self.__dict__["_put_ns"]))
        if self.maxsize > 0:
            self.__dict__["_places_ns"].append(_now_ns())
        return item

    kind._put, kind._get = patched_put, patched_get
