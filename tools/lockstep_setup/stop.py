"""The one way in which the setup gives up: a sentence that says what happened and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class Stop(Exception):
    """Ends the setup. The message is the whole output: one line for a person, no traceback."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def from_os_error(error: OSError, folder: Path) -> Stop:
    """The sentence for a file operation in `folder` that the system refused."""
    if error.errno in _FULL:
        return Stop(f"the disk that holds {folder} is full. Free some space, then run the same command again.")
    if error.errno in _FORBIDDEN:
        return Stop(
            f"no permission to write in {folder}. Put the course into a folder of your own "
            f"(for example: git clone it into your home folder) and run the command there."
        )
    return Stop(f"a file operation in {folder} failed: {error}. Mend that, then run the same command again.")
