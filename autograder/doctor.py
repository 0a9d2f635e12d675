"""Can this machine run the course? A line per thing that the labs rely on, then three real ranks.

`make start` runs it once after an install, `lockstep doctor` at any time. It changes nothing. It does not look at
GPUs: the labs do not use them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import click

_ENOUGH_MEMORY_GB = 3.0  # JupyterLab, a kernel, and a world of eight ranks
_LONGEST_SOCKET_FOLDER = 60  # a unix socket's whole path may have 107 bytes; a run adds up to 45


@dataclass(frozen=True)
class Line:
    """What one check saw. A "note" is worth knowing and stops nothing; "FAIL" stops the labs."""

    status: Literal["ok", "note", "FAIL"]
    name: str
    text: str


def lines() -> Iterator[Line]:
    """Every check, one after another, each as soon as it is known."""
    checks: tuple[tuple[str, Callable[[], Line]], ...] = (
        ("Python", _python),
        ("torch", _torch),
        ("memory", _memory),
        ("temp folder", _temp_folder),
        ("loopback", _loopback),
        ("sandbox", _sandbox),
        ("3 ranks", _ranks),
    )
    for name, check in checks:
        try:
            yield check()
        except Exception as error:  # whatever it is, it must become a line
            yield Line("FAIL", name, f"{type(error).__name__}: {error}")


def main() -> int:
    """Print the lines; 1 when one of them is FAIL."""
    failed = False
    for line in lines():
        failed = failed or line.status == "FAIL"
        print(f"  {line.status:<5} {line.name:<12} {line.text}", flush=True)
    return int(failed)


@click.command()
def doctor() -> None:
    """Say whether this machine can run the course."""
    raise SystemExit(main())


def _python() -> Line:
    version = ".".join(map(str, sys.version_info[:3]))
    return Line("ok", "Python", f"{version} ({sys.executable})")


def _torch() -> Line:
    import torch
    import torch.distributed

    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return Line("FAIL", "torch", f"{torch.__version__} was built without gloo; run make clean, then make start")
    return Line("ok", "torch", f"{torch.__version__} with gloo")


def _memory() -> Line:
    available = _available_bytes()
    if available is None:
        return Line("note", "memory", "this system does not say how much is available")
    gigabytes = available / 1e9
    if gigabytes < _ENOUGH_MEMORY_GB:
        return Line(
            "note", "memory", f"{gigabytes:.1f} GB available; close other programs if a run dies without a reason"
        )
    return Line("ok", "memory", f"{gigabytes:.1f} GB available")


def _available_bytes() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            sizes = dict(line.split(":", 1) for line in file)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # macOS
        return None


def _temp_folder() -> Line:
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"0")
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
        return Line("FAIL", "temp folder", f"{folder} is too long a path for sockets; set TMPDIR=/tmp and try again")
    return Line("ok", "temp folder", f"{folder}, {shutil.disk_usage(folder).free / 1e9:.1f} GB free")


def _loopback() -> Line:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
        server.accept()[0] as accepted,
    ):
        client.sendall(b"lockstep")
        arrived = accepted.recv(8)
    if arrived != b"lockstep":
        return Line("FAIL", "loopback", "127.0.0.1 does not carry bytes unchanged; is a proxy or firewall in between?")
    return Line("ok", "loopback", "127.0.0.1 answers")


def _sandbox() -> Line:
    """Nothing uses it yet; an isolated grader will."""
    program = shutil.which("bwrap")
    if program is None:
        return Line("note", "sandbox", "no bubblewrap (nothing needs it yet)")
    attempt = subprocess.run(
        [program, "--unshare-all", "--ro-bind", "/", "/", "true"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if attempt.returncode != 0:
        why = (attempt.stderr.strip().splitlines() or ["no message"])[-1]
        return Line("note", "sandbox", f"bubblewrap is installed but cannot start here: {why}")
    return Line("ok", "sandbox", "bubblewrap works: submissions are graded in it")


def _sum_of_ranks() -> float:
    import torch
    import torch.distributed as dist

    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value)
    return float(value.item())


def _ranks() -> Line:
    import simulator

    run = simulator.run(_sum_of_ranks, world_size=3, echo=False)
    if not run.ok:
        return Line("FAIL", "3 ranks", run.outcome.text)
    if run.results != [6.0, 6.0, 6.0]:
        return Line("FAIL", "3 ranks", f"the all_reduce of 1, 2 and 3 gave {run.results}, not 6.0 on every rank")
    return Line("ok", "3 ranks", "an all_reduce of 1, 2 and 3 gave 6.0 on every rank")


if __name__ == "__main__":
    sys.exit(main())
