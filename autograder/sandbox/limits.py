"""What a room may use, and the part of it that the kernel counts for every process."""

from __future__ import annotations

import resource
from typing import Literal

import msgspec

Isolation = Literal["bubblewrap", "limits"]
_MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True):
    """Of one room, all its processes together, unless it says otherwise."""

    memory_bytes: int = 4096 * _MIB  # on top of what the forkserver takes
    processes: int = 256  # threads count, too, as for the kernel
    process_memory_bytes: int = 3072 * _MIB  # address space of one process
    process_cpu_s: int = 300
    file_bytes: int = 64 * _MIB  # one file
    open_files: int = 256  # of one process
    disk_bytes: int = 256 * _MIB  # /tmp; as much again in /dev/shm
    rank_bytes: int = 32 * _MIB  # what one rank may say in a run: results, output, announcements
    free_memory_bytes: int = 512 * _MIB  # of the machine; with less, the room ends


def apply(limits: Limits, *, processes: bool) -> None:
    """Put the limits of one process on this one and what it starts. `processes`: also how many there may be, which
    makes sense only where nothing else runs with our user id.
    """
    wanted = {
        resource.RLIMIT_AS: limits.process_memory_bytes,
        resource.RLIMIT_CPU: limits.process_cpu_s,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    if processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
