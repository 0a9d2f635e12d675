"""Threads of a rank: each has a virtual clock of its own, forked at start and merged where one waits for another.

A rank is blocked only when none of its threads runs, so the coordinator has to know of every thread that may still do
something: threads started by user code or by torch's checkpointing are registered (`Thread.start`,
`ThreadPoolExecutor.submit`), and a registered thread that waits for another one (`Condition.wait`, and with it events,
queues and futures; `Thread.join`) is idle. The thread that wakes it declares it running again *before* it can block
itself, so there is no moment at which a rank looks blocked and is not.

Not registered: service threads of the standard library and of data loaders, which sleep most of their life. Not seen: a
wait with a time-out, which wakes by the real clock. Clocks of events and queues: `simulator.rank.handovers`.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pool
from dataclasses import dataclass
from typing import Any

from simulator import wire
from simulator.rank import context
from simulator.rank.clock import RankThread

_SERVICES = ("concurrent.futures", "multiprocessing", "torch.utils.data", "tqdm")


class _Current(threading.local):
    thread: RankThread | None = None


MAIN = RankThread("0")
_current = _Current()


def current() -> RankThread:
    """The registered thread that runs this code; service threads speak for the main thread."""
    return _current.thread or MAIN


def registered() -> RankThread | None:
    """The registered thread that runs this code, or None for threads that the run does not know."""
    if context.current is None:
        return None
    # By its number: asking for the current thread makes one, with an event that is set, while a thread begins.
    return MAIN if threading.get_ident() == threading.main_thread().ident else _current.thread


def begin(thread: RankThread, *, idle: bool = False) -> None:
    thread.is_idle = idle
    context.get().link.note(wire.Spawn(thread.name, thread.now_ns, idle))


def end(thread: RankThread) -> None:
    """The last thing that a registered thread does: whoever joins it runs again."""
    thread.has_ended = True
    for joiner in thread.joiners:
        wake(joiner, thread.now_ns)
    context.get().link.send(wire.End(thread.name, thread.now_ns))


def idle(thread: RankThread) -> None:
    thread.is_idle = True
    context.get().link.send(wire.Idle(thread.name, thread.now_ns))


def catch_up(thread: RankThread, now_ns: int) -> None:
    """Its clock as after a wait until then. Where it jumps, a stretch of compute ends, whether or not the thread really
    had to wait: that depends on the machine.
    """
    if now_ns > thread.now_ns:
        context.get().link.close_stretch(thread.name)
    thread.advance(now_ns)


def wake(thread: RankThread, now_ns: int) -> None:
    """Called by the waker, before it can block."""
    catch_up(thread, now_ns)
    if thread.is_idle:
        thread.is_idle = False
        context.get().link.note(wire.Busy(thread.name, thread.now_ns))


def install() -> None:
    """Patch the standard library in this rank."""
    _patch_thread()
    _patch_condition()
    _patch_futures()
    _patch_pool()


def _patch_thread() -> None:
    start, join = threading.Thread.start, threading.Thread.join

    def patched_start(self: threading.Thread) -> None:
        parent = registered()
        self._started._cond.__dict__["is_ours"] = True  # type: ignore[attr-defined]  # not a wait of user code either
        if parent is not None and not _is_service(sys._getframe(1).f_globals.get("__name__", "")):
            child = parent.fork()
            begin(child)
            self.run = _registered_run(child, self.run)  # type: ignore[method-assign]
            self.__dict__["_rank_thread"] = child
        start(self)

    def patched_join(self: threading.Thread, timeout: float | None = None) -> None:
        me, child = registered(), self.__dict__.get("_rank_thread")
        if me is None or child is None:
            return join(self, timeout)
        if timeout is None and not child.has_ended:
            child.joiners.append(me)
            idle(me)
            if child.has_ended:  # it ended between the look and the wait
                wake(me, child.now_ns)
        join(self, timeout)
        if child.has_ended:
            catch_up(me, child.now_ns)

    threading.Thread.start = patched_start  # type: ignore[method-assign]
    threading.Thread.join = patched_join  # type: ignore[method-assign]


def _registered_run(child: RankThread, run: Callable[[], None]) -> Callable[[], None]:
    def registered_run() -> None:
        _current.thread = child
        try:
            with context.get().charging():
                run()
        finally:
            end(child)

    return registered_run


def _is_service(module: str) -> bool:
    return module.startswith(_SERVICES)


@dataclass(eq=False)
class _Waiter:
    thread: RankThread | None


def _patch_condition() -> None:
    wait, notify = threading.Condition.wait, threading.Condition.notify

    def patched_wait(self: threading.Condition, timeout: float | None = None) -> bool:
        if getattr(self, "is_ours", False) or context.current is None:
            return wait(self, timeout)
        waiter = _Waiter(registered() if timeout is None else None)
        waiters: deque[_Waiter] = self.__dict__.setdefault("_rank_waiters", deque())
        waiters.append(waiter)  # in the order of Condition's own queue: both under its lock
        if waiter.thread is not None:
            idle(waiter.thread)
        try:
            return wait(self, timeout)
        finally:
            if waiter in waiters:  # a time-out, or an exception: nobody woke it
                waiters.remove(waiter)
                if waiter.thread is not None:
                    wake(waiter.thread, waiter.thread.now_ns)

    def patched_notify(self: threading.Condition, n: int = 1) -> None:
        waiters: deque[_Waiter] | None = self.__dict__.get("_rank_waiters")
        if not waiters:
            return notify(self, n)
        for _ in range(min(n, len(waiters))):
            waiter = waiters.popleft()
            if waiter.thread is not None:
                wake(waiter.thread, current().now_ns)
        notify(self, n)

    threading.Condition.wait = patched_wait  # type: ignore[method-assign]
    threading.Condition.notify = patched_notify  # type: ignore[method-assign]


def _patch_futures() -> None:
    """A future carries the clock of whoever resolved it."""

    def resolving(method: Callable[..., None]) -> Callable[..., None]:
        def resolve(self: Future[Any], value: Any) -> None:
            self.__dict__["_resolved_ns"] = current().now_ns
            method(self, value)

        return resolve

    def reading(method: Callable[..., Any]) -> Callable[..., Any]:
        def read(self: Future[Any], timeout: float | None = None) -> Any:
            try:
                return method(self, timeout)
            finally:
                if thread := registered():
                    catch_up(thread, self.__dict__.get("_resolved_ns", 0))

        return read

    Future.set_result = resolving(Future.set_result)  # type: ignore[method-assign]
    Future.set_exception = resolving(Future.set_exception)  # type: ignore[method-assign]
    Future.result = reading(Future.result)  # type: ignore[method-assign]
    Future.exception = reading(Future.exception)  # type: ignore[method-assign]


class _Pool:
    """Tasks of one thread pool: at most `size` run, the others are idle until one ends."""

    def __init__(self, size: int) -> None:
        self.size, self.num_running = size, 0
        self.queue: deque[RankThread] = deque()
        self.lock = threading.Lock()

    def submit(self, task: RankThread) -> None:
        with self.lock:
            starts = self.num_running < self.size
            begin(task, idle=not starts)
            if starts:
                self.num_running += 1
            else:
                self.queue.append(task)

    def finish(self, task: RankThread) -> None:
        with self.lock:
            if self.queue:
                wake(self.queue.popleft(), task.now_ns)
            else:
                self.num_running -= 1
            end(task)


def _patch_pool() -> None:
    submit, run = ThreadPoolExecutor.submit, pool._WorkItem.run

    def patched_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        parent = registered()
        if parent is None:
            return submit(self, fn, *args, **kwargs)
        tasks = self.__dict__.setdefault("_rank_pool", _Pool(self._max_workers))
        task = parent.fork()
        tasks.submit(task)
        return submit(self, _Task(tasks, task, fn), *args, **kwargs)

    def patched_run(self: Any, *args: Any) -> None:
        task = getattr(self, "fn", None)
        if not isinstance(task, _Task):
            return run(self, *args)
        _current.thread = task.thread
        try:
            with context.get().charging():
                run(self, *args)  # resolves the future: whoever waits for it runs before the task ends
        finally:
            task.tasks.finish(task.thread)
            _current.thread = None

    ThreadPoolExecutor.submit = patched_submit  # type: ignore[method-assign,assignment]
    pool._WorkItem.run = patched_run  # type: ignore[method-assign]


class _Task:
    """What a pool is given to run: the function, and the registered thread that it runs as."""

    def __init__(self, tasks: _Pool, thread: RankThread, fn: Callable[..., Any]) -> None:
        self.tasks, self.thread, self._fn = tasks, thread, fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)
