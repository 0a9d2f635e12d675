"""Run pip with progress that says something, and turn its failures into one line.

pip's own bars need a terminal and its errors run to a hundred lines; its whole output is kept in .venv/install.log.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from . import paths
from .stop import Stop

_WORTH_A_LINE_MB = 5.0
_DOWNLOAD = re.compile(r"^\s*Downloading (\S+?)-(\d\S*?)-\S+ \((\d+(?:\.\d+)?) (kB|MB|GB)\)")
_CUDA = re.compile(r"^Collecting (nvidia-|cuda-)")

# In this order: an unreachable index also ends in "No matching distribution", a full disk in other errors. A pinned
# package that no index has is for pip a conflict of its pin with nothing: hence the lines with "(constraint)".
_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|Errno 28|Disk quota exceeded",
        "the disk is full (or the temp folder that pip unpacks in: TMPDIR). Free some space, then run the same command "
        "again; what was downloaded is kept.",
    ),
    (
        r"\[Errno (?:13|1|30)\]|Permission denied|Read-only file system",
        "pip may not write where it must. Put the course into a folder of your own and run the command there.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError|SSL: ",
        "the package index could not be reached safely (its certificate did not verify). On a company network ask for "
        "its certificate and set PIP_CERT to the file; also check the clock of this machine.",
    ),
    (
        r"NewConnectionError|Name or service not known|name resolution|ConnectTimeout|Network is unreachable"
        r"|ConnectionError|ReadTimeout|Connection broken|ProxyError|Connection refused|nodename nor servname",
        "the package index cannot be reached. Check the network (or the proxy settings), then run the same command "
        "again; what was downloaded is kept.",
    ),
    (
        r"No matching distribution found for torch|\(constraint\) torch==",
        "there is no torch {torch} for this Python and machine ({machine}). It is built for Linux and for Macs with "
        "Apple silicon, and for some Pythons only: try another, for example make start PYTHON=python3.12",
    ),
    (
        r"\(constraint\) (?P<pin>\S+)",
        "no package index that pip asks offers {pin} for this Python and machine ({machine}). Check the network and "
        "pip's settings (python3 -m pip config list), then run the same command again.",
    ),
)


def install(root: Path, *arguments: str) -> None:
    """`pip install` into .venv with the pins of constraints.txt. Raises Stop with what went wrong."""
    log = paths.venv(root) / "install.log"
    command = [str(paths.python(root)), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--constraint", str(root / "constraints.txt"), *arguments]
    progress = _Progress()
    with log.open("a", encoding="utf-8") as kept:
        kept.write(f"$ {' '.join(command)}\n")
        with subprocess.Popen(
            command,
            cwd=root,
            env=paths.environment(root) | {"PIP_USER": "0"},
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as child:
            assert child.stdout is not None
            lines: list[str] = []
            try:
                for line in child.stdout:
                    kept.write(line)
                    lines.append(line)
                    progress.see(line)
            except BaseException:
                child.terminate()
                raise
            finally:
                progress.done()
    if child.returncode != 0:
        raise Stop(f"{explain(''.join(lines), root)} (Everything pip said: {log})")


def explain(output: str, root: Path) -> str:
    """One line for what pip printed before it failed."""
    for pattern, sentence in _CAUSES:
        if found := re.search(pattern, output):
            return sentence.format(torch=pin(root, "torch"), machine=_machine(), **found.groupdict())
    errors = [line[len("ERROR: ") :].strip() for line in output.splitlines() if line.startswith("ERROR: ")]
    return (
        f"the install stopped: {errors[-1] if errors else 'pip gave no reason'}. Run the same command again to resume."
    )


def pin(root: Path, name: str) -> str:
    """The version that constraints.txt pins `name` to."""
    for line in (root / "constraints.txt").read_text().splitlines():
        if line.startswith(f"{name}=="):
            return line.partition("==")[2].strip()
    raise AssertionError(f"constraints.txt does not pin {name}")


def _machine() -> str:
    import platform

    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"


class _Progress:
    """Prints what takes time, and on a terminal a line that moves."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.seen = 0
        self.warned = False
        self.live = sys.stdout.isatty()

    def see(self, line: str) -> None:
        if line.startswith(("Collecting ", "Requirement already satisfied", "Processing ")):
            self.seen += 1
            self._status(f"{self.seen} packages looked up")
        if _CUDA.match(line) and not self.warned:
            self.warned = True
            self._line("pip chose torch's CUDA build: several GB. README says how to get the CPU build instead.")
        if (found := _DOWNLOAD.match(line)) and _megabytes(found[3], found[4]) >= _WORTH_A_LINE_MB:
            self._line(f"downloading {found[1]} {found[2]} ({found[3]} {found[4]})")
        if line.startswith("Installing collected packages: ") and (count := line.count(",") + 1) > 1:
            self._line(f"unpacking {count} packages; this can take a minute or two")

    def done(self) -> None:
        self._status("")

    def _line(self, text: str) -> None:
        self._status("")
        print(f"  {time.monotonic() - self.start:4.0f} s  {text}", flush=True)

    def _status(self, text: str) -> None:
        if self.live:
            print(f"\r\033[K{'  ' + text if text else ''}", end="", flush=True)


def _megabytes(number: str, unit: str) -> float:
    return float(number) * {"kB": 1e-3, "MB": 1.0, "GB": 1e3}[unit]
