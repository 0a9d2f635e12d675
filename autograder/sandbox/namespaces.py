"""Namespaces of its own for the calling process, with the kernel's calls and nothing else (Linux).

`bubblewrap` would do it for a new program only; a nursery wants it for a fork of itself that has torch imported.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW = {"mount": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000}
_NEW["net"] = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECUREBITS = 4, 24, 38, 28
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of linux/capability.h
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def leave() -> None:
    """New namespaces of every kind; processes started from here on are the first of theirs.

    Raises:
        OSError: the kernel or a security module does not let this process have them.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", _libc.unshare, sum(_NEW.values()))
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")


def furnish(scratch: str, disk_bytes: int) -> None:
    """As the first process of the new namespaces: own /proc, empty `scratch` and /dev/shm, loopback; then give up the
    means.

    Raises:
        OSError: something of it is not allowed here.
    """
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for place in (scratch, "/dev/shm"):
        _mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={disk_bytes}")
    _loopback_up()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")  # none below this one
    _drop_capabilities()
    os.chdir(scratch)


def close_to_others() -> None:
    """Other processes of this user cannot read or trace this one."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def open_to_itself() -> None:
    """Undo `close_to_others`: a process that is closed cannot list its own /proc/self/fd."""
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _mount(source: str, place: str, kind: str, flags: int, options: str = "") -> None:
    _call(f"mount {place}", _libc.mount, source.encode(), place.encode(), kind.encode(), flags, options.encode())


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh22x", b"lo", 0)
        name, flags = struct.unpack_from("16sh", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | _IFF_UP))


def _drop_capabilities() -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for numbers that this kernel does not know
    _call("no_new_privs", _libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _call("capset", _libc.capset, header, bytes(24))


def _call(what: str, function: ctypes._NamedFuncPointer, *args: object) -> None:
    if function(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
