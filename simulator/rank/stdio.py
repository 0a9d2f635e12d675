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

MAX_CHARACTERS, MAX_LINES = 1_000_000, 10_000


class LineStream(io.TextIOBase):
    """sys.stdout and sys.stderr of a rank, up to MAX_CHARACTERS and MAX_LINES."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._partial = ctx, ""
        self._characters_left, self._lines_left = MAX_CHARACTERS, MAX_LINES

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        if shown := [line for line in map(self._cut, lines) if line is not None]:
            self._ctx.link.send(*(wire.Print(self._ctx.thread.name, line, self._ctx.now_ns) for line in shown))
        self._partial = self._partial[: MAX_CHARACTERS + 1]
        return len(text)

    def _cut(self, line: str) -> str | None:
        """The line as far as it fits; the last one says that more is left out, later ones are None."""
        if self._lines_left <= 0:
            return None
        self._lines_left -= 1
        if len(line) <= self._characters_left and self._lines_left:
            self._characters_left -= len(line)
            return line
        self._lines_left = 0
        limit = f"{MAX_LINES:,} lines or {MAX_CHARACTERS:,} characters"
        return f"{line[: self._characters_left]} ... (a rank shows at most {limit}; the rest is left out)"

    def close_line(self) -> None:
        if self._partial:
            self.write("\n")

    def take_partial(self) -> str:
        """What was written since the last line ended: the prompt of a question."""
        partial, self._partial = self._partial, ""
        return partial


class _NoInput(io.TextIOBase):
    """sys.stdin of a rank: there is no terminal behind it."""

    def readable(self) -> bool:
        return True

    def readline(self, *_: Any) -> NoReturn:
        raise UsageError(
            "a rank has no keyboard: pdb, breakpoint() and input() work in one rank only, the one that you name in "
            "run(..., debug_rank=0); or print instead"
        )


class _Keyboard(io.TextIOBase):
    """sys.stdin of the rank that is debugged: the person at the caller's terminal."""

    def __init__(self, ctx: Context, stream: LineStream) -> None:
        self._ctx, self._stream = ctx, stream

    def readable(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:  # type: ignore[override]
        line = self._ctx.ask_person(self._stream.take_partial())
        return "" if line is None else f"{line}\n"


def redirect(ctx: Context, *, has_keyboard: bool) -> LineStream:
    """Both output streams share one line buffer, so that a rank's lines keep their order."""
    stream = LineStream(ctx)
    sys.stdout = sys.stderr = stream
    sys.stdin = _Keyboard(ctx, stream) if has_keyboard else _NoInput()
    os.register_at_fork(after_in_child=_leave_the_run)
    return stream


def _leave_the_run() -> None:
    """A process that the rank forked (a data-loader worker) is not the rank: it must not speak on its socket."""
    context.current = None
    sys.stdout, sys.stderr = os.fdopen(os.dup(1), "w", buffering=1), os.fdopen(os.dup(2), "w", buffering=1)
