"""The work handle of one operation: announced at issue, launched on gloo when the coordinator says go, finished at
wait.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Reducer, Work

from simulator import wire
from simulator.rank import context, threads
from simulator.rank.clock import Ours
from simulator.rank.failures import failure

#: Starts the real operation; gets the sender's rank in the group (receives from any rank), returns how to finish it.
_NO_TIME = timedelta(0)
Launch = Callable[[int], Callable[[], object]]


class RankWork(Work):
    """What `async_op=True` returns, and what DDP's C++ reducer holds."""

    _finish: Callable[[], object] | None = None
    _future: torch.futures.Future[Any] | None = None
    _error: Exception | None = None
    _source = -1
    _end_ns = _fail_ns = -1
    is_done = False

    def __init__(self, number: int, launch: Launch, outputs: list[torch.Tensor], *, holds_host: bool = False) -> None:
        super().__init__()
        self._holds_host = holds_host  # a barrier: not only the stream waits
        self.number, self._launch, self._outputs = number, launch, outputs

    # ---- the coordinator's answers ----
    @property
    def is_decided(self) -> bool:
        return self._end_ns >= 0 or self._error is not None

    def launch(self, end_ns: int, source: int) -> None:
        self._source, self._end_ns = source, end_ns
        try:
            with Ours(threads.current()):
                self._finish = self._launch(source)
        except Exception as error:  # gloo refuses the arguments: raised where the work is waited for
            self._error = error

    def fail(self, kind: str, text: str, now_ns: int) -> None:
        self._fail_ns = now_ns
        self._error = failure(kind, text)

    # ---- torch's interface ----
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        ctx = context.get()
        if timeout > _NO_TIME:
            self._wait_for(round(timeout.total_seconds() * 1e9))
        if self._error is None and self.is_decided:
            ctx.link.note(wire.Waited(ctx.thread.name, self.number, ctx.now_ns, ctx.thread.is_aside))
        elif self._error is None:
            ctx.block(self)
        self.complete()
        return True

    def _wait_for(self, patience_ns: int) -> None:
        """Raises RuntimeError, as gloo's work does, if the operation ends later than that; it goes on all the same."""
        ctx, thread = context.get(), threads.current()
        until_ns = thread.now_ns + patience_ns
        if not self.is_decided:
            ctx.block_for(self, patience_ns)
        if self._error is None and not 0 <= self._end_ns <= until_ns:
            thread.advance(until_ns)
            raise RuntimeError(f"Operation timed out! It was not done {patience_ns / 1e9:g} virtual seconds later.")

    def complete(self) -> None:
        """Finish the real operation, or raise what went wrong."""
        ctx, thread = context.get(), threads.current()
        ctx.works.pop(self.number, None)
        ctx.futures.pop(self.number, None)
        thread.stall(max(self._end_ns, self._fail_ns))
        if self._holds_host or self._error is not None:
            thread.advance(thread.now_ns)
        if self._error is not None:
            if self._future is not None and not self._future.done():
                self._future.set_exception(self._error)
            raise type(self._error)(*self._error.args)
        if self._finish is not None and not self.is_done:
            with Ours(thread):
                self._finish()
            self._launch = self._finish = None  # type: ignore[assignment]  # let go of the tensors
        self.is_done = True
        if self._future is not None and not self._future.done():
            self._future.set_result(self._outputs)

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        ctx = context.get()
        if self.is_done or self._error is not None:
            return True
        if not self.is_decided:
            ctx.poll(self)
        return self._error is not None or 0 <= self._end_ns <= ctx.now_ns

    def is_success(self) -> bool:
        return self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._outputs

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future that is resolved at the wait: in DDP's backward that wait is a callback which runs before the
        reducer's own.
        """
        if self._future is None:
            if _inside_static_graph:
                self.wait()
            self._future = torch.futures.Future()
            if self.is_done:
                self._future.set_result(self._outputs)
            else:
                context.get().futures[self.number] = self
                _wait_at_the_end_of_backward()
        return self._future


class SkippedWork(RankWork):
    """A collective that a fault hid from the rank: it is done at once and did nothing."""

    def __init__(self, outputs: list[torch.Tensor]) -> None:
        super().__init__(-1, lambda _: lambda: None, outputs)
        self._end_ns, self.is_done = 0, True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True


_callback_queued = False


def _wait_at_the_end_of_backward() -> None:
    """Inside backward, wait for outstanding futures in Python before C++ does: DDP waits on them where nothing can be
    intercepted.
    """
    global _callback_queued
    if _callback_queued:
        return
    try:
        torch.autograd.Variable._execution_engine.queue_callback(_drain_futures)
    except RuntimeError:
        return  # not inside backward: Future.wait is patched instead
    _callback_queued = True


def _drain_futures() -> None:
    global _callback_queued
    _callback_queued = False
    futures = context.get().futures
    while futures:
        futures[min(futures)].wait()


_inside_static_graph = False


def _patch_static_graph() -> None:
    """With `static_graph`, DDP's first backward issues every bucket and waits for it within one C++ call: nothing of
    ours can run between, so each bucket is waited for when its future is asked for.
    """
    delay_all_reduce = Reducer._delay_all_reduce  # type: ignore[attr-defined]

    def patched(reducer: Any) -> None:
        global _inside_static_graph
        _inside_static_graph = True
        try:
            delay_all_reduce(reducer)
        finally:
            _inside_static_graph = False

    Reducer._delay_all_reduce = patched  # type: ignore[attr-defined]


def patch_future_wait() -> None:
    """Waiting for a torch future also waits, announced, for the works that could resolve it."""
    _patch_static_graph()

    def patched(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            futures = context.get().futures
            while futures and not self.done():
                futures[min(futures)].wait()
            return original(self, *args, **kwargs)

        return wait

    torch.futures.Future.wait = patched(torch.futures.Future.wait)  # type: ignore[method-assign]
    torch._C.Future.wait = patched(torch._C.Future.wait)  # type: ignore[method-assign]
