"""The coordinator process: reads the ranks' sockets, asks the engine, writes the replies, reports to the caller.

It is a process of its own because a busy notebook kernel would otherwise delay every collective by its thread switch
interval. It serves one run after another and ends when the caller's socket closes, so a killed kernel leaves nothing
behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from dataclasses import astuple, dataclass

import msgspec

from simulator import wire
from simulator.cluster import Cluster
from simulator.coordinator import protocol
from simulator.coordinator.engine import Engine
from simulator.coordinator.records import ProtocolError
from simulator.coordinator.state import RUNNING, RankState

# These decide nothing but NoProgress, the one outcome outside the promise, and signs of life.
_TICK_MS = 500  # how often running ranks are looked at
_SILENT_S = 10  # after this, and twice and four times as long, people are told that a rank is still silent
_STALL_S = 120.0  # a rank that does not speak, and has slept for so long, waits for something that will not come
_ASLEEP_S, _ASLEEP_SHARE = 0.1, 0.005  # it sleeps as long as it takes no more processor time than the larger of these


@dataclass
class _Silence:
    """Since when a rank has said nothing: its number of words then, processor and wall time then, and the same for when
    it was last seen awake.
    """

    words: int
    cpu_s: float
    wall_s: float
    awake_cpu_s: float
    awake_wall_s: float


def serve(caller: socket.socket) -> None:
    """Run jobs from `caller` until it closes."""
    gc.disable()  # a run's operations live until its end: walking over them again and again would free nothing
    while job := _receive_job(caller):
        spec, sockets = job
        try:
            _Host(spec, sockets, caller).run()
        finally:
            for sock in sockets:
                sock.close()
        gc.collect()


def _receive_job(caller: socket.socket) -> tuple[protocol.Job, list[socket.socket]] | None:
    header, fds, _, _ = socket.recv_fds(caller, wire.HEADER.size, 253)
    if len(header) < wire.HEADER.size:
        return None
    (size,) = wire.HEADER.unpack(header)
    body = b""
    while len(body) < size:
        if not (part := caller.recv(size - len(body))):
            return None
        body += part
    return protocol.decode_job(body), [socket.socket(fileno=fd) for fd in fds]


class _Host:
    """One run: the engine between sockets."""

    def __init__(self, job: protocol.Job, sockets: list[socket.socket], caller: socket.socket) -> None:
        self.job, self.sockets, self.caller = job, sockets, caller
        self.engine = Engine(
            job.world_size, msgspec.convert(job.cluster, Cluster), start_ns=job.start_ns, agent=job.agent
        )
        self.buffers = [wire.FrameBuffer() for _ in sockets]
        self.received_bytes = [0 for _ in sockets]
        self.inbox = memoryview(bytearray(1 << 18))
        self.unsent = [bytearray() for _ in sockets]
        self.backlog: set[int] = set()  # ranks whose socket took only a part of what is for them
        self.asking: dict[int, wire.Ask] = {}
        self.typed = wire.FrameBuffer()
        self.silences: dict[int, _Silence] = {}
        self.tell_after_s: dict[int, int] = {}
        self.poll = select.poll()
        self.rank_of = {sock.fileno(): rank for rank, sock in enumerate(sockets)}  # those that are read

    def run(self) -> None:
        for sock in self.sockets:
            sock.setblocking(False)
            self.poll.register(sock, select.POLLIN)
        self.poll.register(self.caller, select.POLLIN)
        while not self.engine.finished:
            ready = self.poll.poll(_TICK_MS)
            for fd, mask in ready:
                self._serve(fd, mask)
            self.engine.settle()
            self._flush()
            if not ready:
                self._watch()
        self._tell(protocol.Lines(tuple(self.engine.prints.ready(everything=True))))
        self._tell(self._report())

    def _serve(self, fd: int, mask: int) -> None:
        rank = self.rank_of.get(fd)
        if rank is None:
            self._hear_caller()
            return
        if mask & select.POLLOUT:
            self._send(rank)
        if mask & ~select.POLLOUT:
            self._read(rank)

    def _read(self, rank: int) -> None:
        try:
            num_bytes = self.sockets[rank].recv_into(self.inbox)
            self.received_bytes[rank] += num_bytes
            if self.received_bytes[rank] > self.job.limit_bytes:
                raise ProtocolError(f"rank {rank} sent more than {self.job.limit_bytes} bytes")
            for body in self.buffers[rank].feed(self.inbox[:num_bytes]):
                records = wire.decode_records(body)
                self.engine.receive(rank, records)
                if records and type(records[-1]) is wire.Ask:  # it waits for the answer: nothing can follow
                    self._ask(rank, records[-1])
        except BlockingIOError:
            return
        except (OSError, ValueError, msgspec.DecodeError, ProtocolError):
            num_bytes = 0  # a rank that speaks no protocol is as good as gone
        if not num_bytes:
            self.poll.unregister(self.sockets[rank])
            del self.rank_of[self.sockets[rank].fileno()]
            with contextlib.suppress(OSError):
                self.sockets[rank].shutdown(socket.SHUT_RDWR)
            self.engine.closed(rank)

    def _ask(self, rank: int, ask: wire.Ask) -> None:
        """Pass a question of the debugged rank on to the person, after everything that was printed."""
        if rank != self.job.debug_rank or rank in self.asking:
            raise ProtocolError(f"rank {rank} asks for input and is not debugged")
        self.asking[rank] = ask
        self._tell(protocol.Lines(tuple(self.engine.prints.ready(everything=True))))
        self._tell(protocol.Ask(rank, ask.prompt))

    def _hear_caller(self) -> None:
        """During a run the caller only passes on what the person typed; else it is gone."""
        data = self.caller.recv(1 << 16)
        if not data:
            os._exit(0)
        for body in self.typed.feed(data):
            typed = protocol.decode_typed(body)
            ask = self.asking.pop(typed.rank)
            self.silences.pop(typed.rank, None)
            values = () if typed.line is None else (typed.line.encode(),)
            self.engine.outbox[typed.rank].append(wire.Answer(ask.thread, values))

    def _flush(self) -> None:
        for rank, replies in enumerate(self.engine.outbox):
            if replies:
                self._post(rank, wire.frame(replies))
                replies.clear()
        if lines := self.engine.prints.ready():
            self._tell(protocol.Lines(tuple(lines)))

    def _post(self, rank: int, frame: bytes) -> None:
        """Send a new frame; what the socket does not take now waits."""
        if not self.unsent[rank]:
            try:
                frame = frame[self.sockets[rank].send(frame) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # the reader will see that it is gone
            if not frame:
                return  # nearly always
        self.unsent[rank] += frame
        self._send(rank)

    def _send(self, rank: int) -> None:
        pending, sock = self.unsent[rank], self.sockets[rank]
        try:
            while pending:
                del pending[: sock.send(pending)]
        except BlockingIOError:
            pass
        except OSError:
            pending.clear()  # the reader will see that it is gone
        if bool(pending) != (rank in self.backlog) and sock.fileno() in self.rank_of:
            self.backlog ^= {rank}
            self.poll.modify(sock, select.POLLIN | (select.POLLOUT if pending else 0))

    def _watch(self) -> None:
        """The backstop for a rank that spins where its own timer cannot interrupt it, or sleeps for ever."""
        running = [state for state in self.engine.ranks if state.status == RUNNING and state.rank not in self.asking]
        stuck = [state.rank for state in running if self._is_stuck(state)]
        for rank in stuck:
            self.engine.receive(rank, [wire.Leave("spinning", self.engine.ranks[rank].clock_ns)])
        if stuck:
            self._tell(protocol.Spinning(tuple(stuck)))

    def _is_stuck(self, state: RankState) -> bool:
        cpu_s, wall_s = _cpu_seconds(self.job.pids[state.rank]), time.monotonic()
        seen = self.silences.get(state.rank)
        if seen is None or seen.words != state.num_words:
            self.silences[state.rank] = _Silence(state.num_words, cpu_s, wall_s, cpu_s, wall_s)
            self.tell_after_s.pop(state.rank, None)
            return False
        silent_s = int(wall_s - seen.wall_s)
        if silent_s >= self.tell_after_s.get(state.rank, _SILENT_S):
            self.tell_after_s[state.rank] = 2 * silent_s
            self._tell(protocol.Silent(state.rank, silent_s))
        slept_s = wall_s - seen.awake_wall_s
        if cpu_s - seen.awake_cpu_s > max(_ASLEEP_S, _ASLEEP_SHARE * slept_s):
            seen.awake_cpu_s, seen.awake_wall_s = cpu_s, wall_s
            slept_s = 0.0
        return cpu_s - seen.cpu_s > 1.5 * self.job.cpu_limit_s + 1 or slept_s > _STALL_S

    def _tell(self, message: protocol.FromHost) -> None:
        self.caller.sendall(wire.frame(message))

    def _report(self) -> protocol.Report:
        ranks = []
        for state in self.engine.ranks:
            leave = state.leave or wire.Leave("crashed", state.clock_ns)
            ranks.append(
                protocol.RankReport(
                    state.why, state.clock_ns, state.step, leave.derived, leave.result, leave.error, leave.memory
                )
            )
        verdicts = [protocol.VerdictData(*astuple(verdict)) for verdict in self.engine.judge.verdicts]
        return protocol.Report(self.engine.events(), verdicts, ranks, self.engine.groups())


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process (Linux; 0 elsewhere, where only the rank's own timer watches)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
