"""Inside the building: one process that has torch imported and opens rooms. No student's code ever runs in it.

It lives as long as the socket to its owner. `Open` comes with the socket on which the room's forkserver will serve;
`Opened` says whether there is a room. A room's first process is a fork of this one, after `namespaces.leave`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
from typing import NoReturn

from autograder.sandbox import limits, namespaces, processes
from autograder.sandbox.bubblewrap import SCRATCH
from autograder.sandbox.messages import Open, Opened, decode_open
from simulator import wire
from simulator.rank import main as rank_main
from simulator.rank.zygote import Zygote


def main(fd: int) -> None:
    """Serve the owner at the other end of `fd` until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    namespaces.close_to_others()
    owner = socket.socket(fileno=fd)
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # rooms that ended leave no zombies
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    os.close(quiet)
    owner.sendall(wire.frame(Opened("")))
    while message := _receive(owner):
        wanted, theirs = message
        _open(owner, wanted, theirs)
        os.close(theirs)
    os._exit(0)


def _import_everything() -> None:
    from simulator.rank.preload import LATER

    for name in LATER:
        importlib.import_module(name)


def _receive(owner: socket.socket) -> tuple[Open, int] | None:
    data, fds, _, _ = socket.recv_fds(owner, 1 << 16, 1)
    frames = wire.FrameBuffer().feed(data)  # an Open is small: it comes whole
    return (decode_open(frames[0]), fds[0]) if frames and fds else None


def _open(owner: socket.socket, wanted: Open, theirs: int) -> None:
    """Fork a room; its own first process says how that went."""
    if os.fork():
        return
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if wanted.apart:
            _move_apart(owner, wanted, theirs)
        else:
            _serve(owner, wanted, theirs)
    finally:
        os._exit(71)  # only a mistake of ours leads here


def _move_apart(owner: socket.socket, wanted: Open, theirs: int) -> NoReturn:
    """Into new namespaces; this process waits for the room's first one and is all that the nursery sees of it."""
    try:
        namespaces.open_to_itself()  # the maps of a new user namespace are files of ours under /proc
        namespaces.leave()
        first = os.fork()
    except OSError as error:
        owner.sendall(wire.frame(Opened(str(error))))
        os._exit(1)
    if first:
        owner.close()
        os.close(theirs)
        os.waitpid(first, 0)
        os._exit(0)
    try:
        rank_main.prepare_process()
        namespaces.furnish(SCRATCH, wanted.limits.disk_bytes)
    except OSError as error:
        owner.sendall(wire.frame(Opened(str(error))))
        os._exit(1)
    _serve(owner, wanted, theirs)


def _serve(owner: socket.socket, wanted: Open, theirs: int) -> NoReturn:
    """Be the forkserver of a room's ranks until the caller is gone or everything here is killed."""
    if not wanted.apart:
        rank_main.prepare_process()
        processes.adopt_orphans()  # the first process of its own namespaces does so anyway
    limits.apply(wanted.limits, processes=wanted.alone)
    namespaces.close_to_others()
    caller = socket.socket(fileno=theirs)
    owner.sendall(wire.frame(Opened("")))
    owner.close()
    zygote = Zygote(caller, on_fork=namespaces.open_to_itself)
    with contextlib.suppress(OSError):
        zygote.serve()
    zygote.sweep()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
