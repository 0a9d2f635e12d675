"""Standard streams of a rank: lines go to the coordinator with their virtual time; there is nothing to read."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, NoReturn

from simulator import wire
from simulator.errors import UsageError
from simulator.rank import context
from simulator.rank.context import Context


class LineStream(io.TextIOBase):
    """sys.stdout and sys.stderr of a rank."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._partial = ctx, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        if lines:
            self._ctx.link.send(*(wire.Print(self._ctx.thread.name, line, self._ctx.now_ns) for line in lines))
        return len(text)

    def close_line(self) -> None:
        if self._partial:
            self.write("\n")


class _NoInput(io.TextIOBase):
    """sys.stdin of a rank: there is no terminal behind it."""

    def readable(self) -> bool:
        return True

    def readline(self, *_: Any) -> NoReturn:
        raise UsageError(
            "a rank has no keyboard: pdb, breakpoint() and input() cannot work in one of several processes; "
            "print instead"
        )


def redirect(ctx: Context) -> LineStream:
    """Both output streams share one line buffer, so that a rank's lines keep their order."""
    stream = LineStream(ctx)
    sys.stdout = sys.stderr = stream
    sys.stdin = _NoInput()
    os.register_at_fork(after_in_child=_leave_the_run)
    return stream


def _leave_the_run() -> None:
    """A process that the rank forked (a data-loader worker) is not the rank: it must not speak on its socket."""
    context.current = None
    sys.stdout, sys.stderr = os.fdopen(os.dup(1), "w", buffering=1), os.fdopen(os.dup(2), "w", buffering=1)
