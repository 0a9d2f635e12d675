"""The command line that puts a program behind bubblewrap: what it sees, and nothing else.

As root a first bubblewrap makes the same view and gives up root for a user id that no account has; the second one is
then what an ordinary user starts. So there is one way to be inside, and root's files stay root's.
"""

from __future__ import annotations

import functools
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder.errors import SandboxError
from autograder.sandbox.limits import Isolation, Limits
from simulator import launch

_PACKAGES = Path(__file__).resolve().parents[2]
_FIRST_USER_ID = 1_000_000_000  # far above accounts, and above the ranges that containers use
_PROBE_LIMIT_S = 20
#: The one place on disk that a room can write to, besides /dev/shm. /tmp leads there, unless the course is in /tmp.
SCRATCH = "/scratch"
#: What to say where bubblewrap cannot be used.
WITHOUT = (
    "Submissions are not graded without it unless you say --isolation limits: limits on time, memory and files for "
    "every process, and an end to all of them. That does not keep code from reading and writing your files, from using "
    "the network, or from touching your other processes: use an account or a machine that may be lost."
)
#: All that a program inside finds in its environment; what the grader's own one holds stays outside.
ENVIRONMENT = launch.ENVIRONMENT | {
    "PATH": "/usr/bin:/bin",
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "LANG": "C.UTF-8",
    "USER": "student",
    "LOGNAME": "student",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def command(limits: Limits) -> tuple[str, ...]:
    """What to put before a program. Its working directory is `SCRATCH`, its environment `ENVIRONMENT`."""
    inside = ("bwrap", *_view(), *_own_world(limits), "--")
    return (*_give_up_root(), *inside) if os.geteuid() == 0 else inside


@functools.cache
def why_not() -> str:
    """Why bubblewrap cannot be used on this machine, or "". Tries it."""
    if sys.platform != "linux":
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (Debian, Ubuntu: sudo apt install bubblewrap)"
    try:
        done = subprocess.run(
            [*command(Limits()), sys.executable, "-I", "-S", "-c", "print(6 * 7)"],
            capture_output=True,
            text=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    return "" if done.stdout == "42\n" else f"bubblewrap may not make its namespaces here: {_last(done.stderr)}"


def require(isolation: Isolation) -> None:
    """Raises `SandboxError` where graded code could not be kept inside as `isolation` says."""
    if isolation == "bubblewrap" and (why := why_not()):
        raise SandboxError(f"{why}. {WITHOUT}")


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]


def _view() -> list[str]:
    """Read-only: the system's programs and libraries, Python, its packages, and our own two packages."""
    places = [path for path in _readable() if path.exists()]
    ancestors = sorted({parent for path in places for parent in path.parents if parent != Path("/")})
    # bubblewrap would make them readable by one user only, and as root that is not the user inside
    words = [word for parent in ancestors for word in ("--perms", "0755", "--dir", str(parent))]
    for path in places:
        words += ["--ro-bind", str(path), str(path)]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _readable() -> Iterator[Path]:
    yield Path("/usr")
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "alternatives"):
        yield Path("/etc") / name
    yield from _outermost({Path(sys.base_prefix), Path(sys.prefix), *map(Path, site.getsitepackages())})
    yield from (_PACKAGES / name for name in ("simulator", "autograder"))


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Without those that lie below another one, or below /usr. A prefix is taken as it is written and where it is."""
    every = sorted({*paths, *(path.resolve() for path in paths)})
    usr = Path("/usr")
    return [p for p in every if not any(q in p.parents or p == usr for q in (*every, usr))]


def _own_world(limits: Limits) -> list[str]:
    spaces = ["user", "pid", "net", "ipc", "uts"]
    words = [f"--unshare-{space}" for space in spaces] + ["--unshare-cgroup-try"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    if not any(Path("/tmp") in path.parents for path in _readable()):
        words += ["--symlink", SCRATCH, "/tmp"]
    for place in (SCRATCH, "/dev/shm"):
        words += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", place]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    words += ["--hostname", "room", "--new-session", "--die-with-parent", "--chdir", SCRATCH, "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return words


def _give_up_root() -> tuple[str, ...]:
    """As root: the view, and then another user id, one for each grader."""
    user = str(_FIRST_USER_ID + os.getpid())
    capabilities = [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    # the second bubblewrap wants a /tmp, and a /proc in which it may map its user
    scratch = ["--perms", "1777", "--tmpfs", "/tmp", "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev"]
    view = ["bwrap", *scratch, *_view(), "--cap-drop", "ALL", *capabilities, "--die-with-parent", "--"]
    become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    return (*view, *become, "--pdeathsig", "KILL", "--")
