"""One start of the job: its processes, and what they left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from simulator import launch, pickling, values
from simulator.cluster import Cluster
from simulator.coordinator import protocol
from simulator.coordinator.state import ranks_text
from simulator.elastic.policy import Exit
from simulator.errors import ResultError
from simulator.faults import ENDS, FaultPlan
from simulator.memory.report import MemoryReport
from simulator.memory.report import decode as decode_memory
from simulator.outcome import COMPLETED, Outcome, find_outcome
from simulator.session import Session
from simulator.start import Start
from simulator.trace import Event, Trace

_WELL = ("done", "hung")  # ends that no agent sees: of a rank that hangs the process is alive


#: Starts one incarnation: its number, world size, start time, faults, and partitions that last.
Launch = Callable[[int, int, int, FaultPlan, dict[str, int]], "Incarnation"]


class Setup(NamedTuple):
    """What all incarnations share."""

    cluster: Cluster
    cpu_limit_s: float
    echo: bool
    agent: bool
    settings: dict[str, Any]
    replay: str


@dataclass(frozen=True)
class Incarnation:
    """One start of the job and how it ended. Times in virtual nanoseconds since the job began.

    Attributes:
        exits: of every rank. choice: what the agent did after it, "" for nothing.
        entered, finished: steps that some rank entered, and that every rank finished.
    """

    number: int
    world_size: int
    start_ns: int
    end_ns: int
    outcome: Outcome
    exits: tuple[Exit, ...]
    entered: frozenset[int]
    finished: frozenset[int]
    choice: str = ""
    events: tuple[Event, ...] = field(default=(), repr=False)
    groups: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), repr=False)
    results: tuple[Any, ...] = field(default=(), repr=False)
    memory: tuple[MemoryReport | None, ...] = field(default=(), repr=False)
    output: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    raw: dict[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def has_failed(self) -> bool:
        """A process ended that should not have: what an agent sees."""
        return any(exit.why not in _WELL for exit in self.exits)


def launcher(
    setup: Setup,
    common: Start,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    rank_args: Sequence[tuple[Any, ...]] | None,
) -> Launch:
    """What starts one incarnation of a job of this function."""

    def launch_one(number: int, size: int, start_ns: int, plan: FaultPlan, healing: dict[str, int]) -> Incarnation:
        own = None if rank_args is None else rank_args[:size]
        starts = [
            msgspec.structs.replace(
                common,
                world_size=size,
                restart_count=number,
                start_ns=start_ns,
                healing=healing,
                rank=rank,
                faults=[msgspec.to_builtins(fault) for fault in plan.of_rank(rank)],
                payload=payload,
                labels=labels,
            )
            for rank, (payload, labels) in enumerate(pickling.payloads(fn, args, own, size))
        ]
        return _start(setup, starts, plan)

    return launch_one


def _start(setup: Setup, starts: list[Start], plan: FaultPlan) -> Incarnation:
    """Run one incarnation to its end; `plan` is what it may meet."""
    world, number = launch.world(), starts[0].restart_count
    with world.lock:
        session = Session(world, starts, setup.cluster, setup.cpu_limit_s, setup.echo, agent=setup.agent)
        report = _uninterrupted(session)
    reports, results = _read_results(report.ranks, plan, setup.agent)
    codes = [session.exit_code(rank) for rank in range(len(reports))]
    events = tuple(msgspec.structs.replace(event, incarnation=number) if number else event for event in report.events)
    trace = Trace({**setup.settings, "world_size": len(starts)}, list(events))
    trace.header["groups"] = [[name, list(ranks)] for name, ranks in report.groups]
    outcome = find_outcome(reports, report.verdicts, codes, trace, setup.replay, starts[0].labels)
    if setup.agent:
        outcome = _as_an_agent_sees_it(outcome, reports)
    steps = [_steps(trace, rank, reports[rank].why) for rank in range(len(reports))]
    return Incarnation(
        number=number,
        world_size=len(starts),
        start_ns=starts[0].start_ns,
        end_ns=max(report.clock_ns for report in reports),
        outcome=outcome,
        exits=tuple(
            Exit(rank, r.why, r.step, r.clock_ns / 1e9, rank in outcome.ranks) for rank, r in enumerate(reports)
        ),
        entered=frozenset().union(*(entered for entered, _ in steps)),
        finished=frozenset.intersection(*(finished for _, finished in steps)),
        events=events,
        groups=tuple(report.groups),
        results=tuple(results),
        memory=tuple(decode_memory(r.memory) for r in report.ranks),
        output=tuple(session.output),
        raw={rank: bytes(data) for rank, data in enumerate(session.raw) if data},
    )


def _uninterrupted(session: Session) -> protocol.Report:
    """The session's report; after Ctrl-C a short KeyboardInterrupt in place of our own frames."""
    try:
        return session.run()
    except KeyboardInterrupt:
        pass
    raise KeyboardInterrupt("the run was interrupted; all its ranks were ended")


def _read_results(
    ranks: Sequence[protocol.RankReport], plan: FaultPlan, agent: bool
) -> tuple[list[protocol.RankReport], list[Any]]:
    """The reports and the values that ranks returned. A rank is not believed that the plan or an agent ended it when
    that could not be, nor that it returned when its bytes are no result.
    """
    reports, results = list(ranks), list[Any]([None] * len(ranks))
    doomed = {(fault.rank, how) for fault in plan.faults for how in ENDS.get(fault.kind, ())}
    if agent and any(report.why in ("killed", "error", "crashed", "spinning") for report in ranks):
        doomed |= {(rank, "stopped") for rank in range(len(ranks))}
    for rank, report in enumerate(ranks):
        if report.why in ("killed", "hung", "stopped") and (rank, report.why) not in doomed:
            reports[rank] = msgspec.structs.replace(report, why="crashed")
        elif report.why == "done":
            try:
                results[rank] = values.decode(report.result)
            except ResultError as error:
                said = msgspec.json.encode({"type": "ResultError", "message": str(error), "frames": []})
                reports[rank] = msgspec.structs.replace(report, why="error", derived=False, error=said)
    return reports, results


def _as_an_agent_sees_it(outcome: Outcome, reports: Sequence[protocol.RankReport]) -> Outcome:
    """A killed rank is a failure of the job for an agent, also where the others could have gone on without it."""
    killed = [rank for rank, report in enumerate(reports) if report.why == "killed"]
    if outcome.name != COMPLETED or not killed:
        return outcome
    step = reports[killed[0]].step
    was, at = "was" if len(killed) == 1 else "were", f" at step {step}" if step >= 0 else ""
    text = f"{ranks_text(killed).capitalize()} {was} killed{at} by the fault plan, and the agent stopped the others."
    return replace(outcome, name="PeerLost", text=text, ranks=tuple(killed), step=step)


def _steps(trace: Trace, rank: int, why: str) -> tuple[frozenset[int], frozenset[int]]:
    """The steps that a rank entered, and those that it finished: it entered another one after them, or returned."""
    entered = [event.step for event in trace.of_rank(rank) if event.op == "step"]
    return frozenset(entered), frozenset(entered if why == "done" else entered[:-1])
