"""The processes of one run: from fork to sweep, with nothing left behind whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
from collections.abc import Iterator

import msgspec

from simulator import launch, wire
from simulator.cluster import Cluster
from simulator.coordinator import protocol
from simulator.rank import zygote
from simulator.start import Start

_RAW_LIMIT_BYTES = 1 << 20  # what a rank may write past Python


class Session:
    """One run in a `World` that the caller has locked. After `run`: what ranks printed and exited with."""

    def __init__(
        self,
        world: launch.World,
        starts: list[Start],
        cluster: Cluster,
        cpu_limit_s: float,
        echo: bool,
        *,
        agent: bool = False,
    ) -> None:
        self.agent = agent
        self.world, self.starts, self.cluster, self.cpu_limit_s, self.echo = world, starts, cluster, cpu_limit_s, echo
        self.output: list[tuple[int, str]] = []
        self.raw: list[bytearray] = [bytearray() for _ in starts]
        self.pids: tuple[int, ...] = ()
        self.codes: dict[int, int] = {}
        self.pipes: list[int] = []
        self.has_begun = False

    def run(self) -> protocol.Report:
        """Start, follow to the end, leave nothing. An interrupt ends the ranks and is raised again."""
        try:
            self.world.wait_ready()
            with _without_interrupts():  # half a start could not be undone without ending the helpers
                self._start()
            return self._follow()
        except BaseException:
            self._abandon()
            raise
        finally:
            for pipe in self.pipes:
                os.close(pipe)

    def exit_code(self, rank: int) -> int | None:
        return self.codes.get(self.pids[rank])

    def _start(self) -> None:
        links = [socket.socketpair() for _ in self.starts]
        pipes = [os.pipe() for _ in self.starts]
        self.pipes = [read for read, _ in pipes]
        try:
            self.pids = self.world.fork([rank_end for rank_end, _ in links], [write for _, write in pipes])
            for start, (rank_end, our_end) in zip(self.starts, links, strict=True):
                rank_end.close()
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # a rank that is already dead is found later
                    our_end.sendall(wire.frame(start))
            watched = self.world.ranks.pids_here(self.pids)
            cluster = msgspec.to_builtins(self.cluster)
            job = protocol.Job(
                len(links),
                cluster,
                watched,
                self.cpu_limit_s,
                self.world.limit_bytes,
                start_ns=self.starts[0].start_ns,
                agent=self.agent,
                debug_rank=self.starts[0].debug_rank,
            )
            self.world.begin(job, [our_end for _, our_end in links])
            self.has_begun = True
        finally:
            for ends in links:
                for end in ends:
                    end.close()
            for _, write in pipes:
                os.close(write)

    def _follow(self) -> protocol.Report:
        """Until the coordinator reports: pass on output, collect exits."""
        report = None
        with selectors.DefaultSelector() as selector:
            selector.register(self.world.coordinator.socket, selectors.EVENT_READ, -1)
            selector.register(self.world.ranks.socket, selectors.EVENT_READ, -2)
            for rank, pipe in enumerate(self.pipes):
                selector.register(pipe, selectors.EVENT_READ, rank)
            while report is None:
                for key, _ in selector.select():
                    if key.data == -1:
                        report = self._hear_coordinator() or report
                    elif key.data == -2:
                        self._hear_zygote()
                    elif not self._hear_rank(key.data):
                        selector.unregister(key.fd)
        self.codes.update(self.world.sweep())
        for rank in range(len(self.pipes)):
            while self._hear_rank(rank):
                pass
        return report

    def _hear_coordinator(self) -> protocol.Report | None:
        for body in self.world.coordinator.feed():
            match protocol.decode_from_host(body):
                case protocol.Lines(lines):
                    self.output += lines
                    if self.echo:
                        print("".join(f"[rank {rank}] {text}\n" for rank, text in lines), end="", flush=True)
                case protocol.Silent(rank, seconds):
                    if self.echo:
                        print(
                            f"rank {rank} has not communicated for {seconds} s: it computes, sleeps or waits ...",
                            flush=True,
                        )
                case protocol.Ask(rank, prompt):
                    self.world.coordinator.send(protocol.Typed(rank, _ask_person(rank, prompt)))
                case protocol.Spinning(ranks):
                    self.world.kill(tuple(self.pids[rank] for rank in ranks))
                case protocol.Report() as report:
                    return report
        return None

    def _hear_zygote(self) -> None:
        for body in self.world.ranks.feed():
            reply = launch.zygote_reply(body)
            if isinstance(reply, zygote.Exited):
                self.codes[reply.pid] = reply.code

    def _hear_rank(self, rank: int) -> bool:
        data = os.read(self.pipes[rank], 1 << 16)
        self.raw[rank] += data[: max(0, _RAW_LIMIT_BYTES - len(self.raw[rank]))]
        return bool(data)

    def _abandon(self) -> None:
        """After an interrupt: end the ranks and bring the helpers back in step, or end the helpers too."""
        if not self.has_begun:
            return launch.shutdown()
        try:
            self.world.kill(self.pids)
            self.echo = False
            self._follow()
        except BaseException:
            launch.shutdown()


def _ask_person(rank: int, prompt: str) -> str | None:
    """A line from the terminal or the notebook for the debugged rank; None at the end of input."""
    try:
        return input(f"[rank {rank}] {prompt}")
    except EOFError:
        return None


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
