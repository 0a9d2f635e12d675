"""What is printed about submissions: one line of visible characters, whatever a student called a file or a class.

A terminal obeys escape codes, and a line break inside a message looks like a line of ours.
"""

from __future__ import annotations

import logging
import queue
import unicodedata

import click

MOST = 300  # characters of one thing that is said
_MOST_OF_A_LINE = 20_000  # a line that names everybody of a class is long and right
_MOST_OF_A_NAME = 60
_BREAKS = "\t\n\r\x0b\x0c\x85\u2028\u2029"


def one_line(text: str, most: int = MOST) -> str:
    """`text` without line breaks, with control and format characters (categories C*) shown as escapes.

    Args:
        most: characters that are shown; a text that has more ends with "…".
    """
    shown = "".join(_shown(character) for character in text[: most + 1])
    return shown if len(text) <= most and len(shown) <= most else shown[: most - 1] + "…"


def name(text: str) -> str:
    """A file's or a student's name, short enough to stand in a line with others."""
    return one_line(text, _MOST_OF_A_NAME)


def say(text: str = "", end: bool = True) -> None:
    """Prints one line, or the beginning of one."""
    click.echo(one_line(text, _MOST_OF_A_LINE), nl=end)


def _shown(character: str) -> str:
    if character in _BREAKS:
        return " "
    return ascii(character)[1:-1] if unicodedata.category(character).startswith("C") else character


class HeldLog(logging.Handler):
    """Log records of the grader, held back until a line is complete: workers log while another student's is open."""

    def __init__(self) -> None:
        super().__init__()
        self._held: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._logger = logging.getLogger("autograder")

    def __enter__(self) -> HeldLog:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._logger.removeHandler(self)
        self.tell()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self._held.put(self.format(record))

    def tell(self) -> None:
        """Print what was held, line by line, on standard error."""
        while not self._held.empty():
            for line in self._held.get().splitlines():
                click.echo(one_line(line), err=True)
