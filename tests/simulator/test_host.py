"""The coordinator process: what it does with ranks that say nothing, and with nonsense on a rank's socket."""

import os
import socket
import threading

import msgspec
import pytest

from simulator import wire
from simulator.cluster import get_cluster
from simulator.coordinator import host, protocol


def _serve(talk, world_size=2):
    """Serve one job whose ranks are `talk(rank, socket)` in threads of this process; the report."""
    links = [socket.socketpair() for _ in range(world_size)]
    ours, theirs = socket.socketpair()
    job = protocol.Job(world_size, msgspec.to_builtins(get_cluster("a100-80gb")), (os.getpid(),) * world_size, 60.0)
    served = host._Host(job, [end for _, end in links], theirs)
    ranks = [threading.Thread(target=talk, args=(rank, end)) for rank, (end, _) in enumerate(links)]
    for rank in ranks:
        rank.start()
    served.run()
    for rank in ranks:
        rank.join()
    frames = wire.FrameBuffer()
    bodies = []
    while not bodies or not isinstance(bodies[-1], protocol.Report):
        bodies += [protocol.decode_from_host(body) for body in frames.feed(ours.recv(1 << 16))]
    for end in (ours, theirs, *(end for pair in links for end in pair)):
        end.close()
    return bodies


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff\xff\xff\xff",
        wire.HEADER.pack(3) + b"abc",
        wire.frame([["op", "not", "an", "op"]]),
        wire.frame([wire.Block("0", 7, 0)]),
        wire.frame([wire.Idle("0.9", 0)]),
        wire.frame([wire.GroupDef("k", "g", (0, 99))]),
    ],
)
def test_a_rank_that_speaks_no_protocol_is_gone_and_the_others_go_on(nonsense):
    def talk(rank, end):
        end.sendall(nonsense if rank == 1 else wire.frame([wire.Leave("done", 5)]))
        while end.recv(1 << 16):  # the coordinator lets go of both
            if rank == 0:
                end.close()
                return

    report = _serve(talk)[-1]
    assert [rank.why for rank in report.ranks] == ["done", "crashed"]


@pytest.mark.parametrize("used_s", [[0.0], [0.0, 0.5, 0.5]], ids=["at once", "after it computed"])
def test_a_rank_that_sleeps_for_ever_makes_no_progress(used_s, monkeypatch):
    monkeypatch.setattr(host, "_STALL_S", 0.2)
    monkeypatch.setattr(host, "_TICK_MS", 50)
    used = iter(used_s)
    monkeypatch.setattr(host, "_cpu_seconds", lambda pid: next(used, used_s[-1]))
    told = threading.Event()

    def talk(rank, end):
        if rank == 0:
            end.sendall(wire.frame([wire.Leave("done", 5)]))
            end.recv(1 << 16)
        else:
            told.wait(30)  # says nothing
        end.close()

    original = host._Host._tell

    def tell(self, message):
        if isinstance(message, protocol.Spinning):
            told.set()
        original(self, message)

    monkeypatch.setattr(host._Host, "_tell", tell)
    *_, report = _serve(talk)
    assert [rank.why for rank in report.ranks] == ["done", "spinning"]
