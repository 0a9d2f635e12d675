"""The commands behind the Makefile: start, test, and run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from . import install, notebook, paths, stamp
from .stop import Stop

_TEST_EXTRAS = ["grade", "lab", "test"]
_USAGE = "usage: bootstrap.py start | test [pytest arguments] | run EXTRA,EXTRA COMMAND ..."


def main(arguments: list[str], root: Path = paths.ROOT) -> int:
    """Run one command; every way to fail ends in one line on stderr."""
    # SIGINT too: a script that starts make in the background has it ignored, and Python then leaves it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: nohup asks to outlive the terminal
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        return _dispatch(arguments, root)
    except Stop as stop:
        return _say(str(stop), stop.exit_code)
    except KeyboardInterrupt:
        return _say("stopped. Run the same command again: it goes on where it was.", 130)


def _dispatch(arguments: list[str], root: Path) -> int:
    match arguments:
        case ["start"]:
            return _start(root)
        case ["test", *rest]:
            _ensure(root, _TEST_EXTRAS)
            # Two at a time, whatever the machine has: a test starts several ranks itself. `ARGS='-n 0'` for one.
            return _exec(root, ["python", "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "not slow", *rest])
        case ["run", extras, *command] if command:
            _ensure(root, extras.split(","))
            return _exec(root, command)
        case _:
            raise Stop(_USAGE, 2)


def _start(root: Path) -> int:
    _ensure(root, ["lab"])
    have = stamp.load(root)
    if have is not None and not have.checked:
        _self_check(root)
        have.checked = True
        stamp.save(root, have)
    try:
        return notebook.serve(root)
    except KeyboardInterrupt:
        print("\nJupyterLab has ended. make start opens it again.")
        return 0


def _ensure(root: Path, extras: list[str]) -> None:
    install.ensure(root, extras, os.environ.get("TORCH_INDEX", ""))


def _self_check(root: Path) -> None:
    """Three real ranks, once per install; `lockstep doctor` repeats it at any time."""
    check = subprocess.run(
        [paths.python(root), "-m", "autograder.doctor"], cwd=root, env=paths.environment(root), check=False
    )
    if check.returncode != 0:
        raise Stop("the self-check failed (the line above says where). Mend that, then run make start again.")


def _exec(root: Path, command: list[str]) -> int:
    """Become the command, with .venv active."""
    sys.stdout.flush()
    os.chdir(root)
    env = paths.environment(root)
    try:
        os.execvpe(command[0], command, env)
    except FileNotFoundError:
        raise Stop(f"there is no command {command[0]} in .venv. Run make clean, then the same command again.") from None


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(message: str, exit_code: int) -> int:
    sys.stdout.flush()
    print(f"lockstep: {message}", file=sys.stderr)
    return exit_code
