"""`run`: a function as N ranks in the deterministic world."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from simulator import launch
from simulator.call import MAX_WORLD_SIZE, call_in_words, check_call, check_debug_rank, check_restarts, clocks_in_words
from simulator.cluster import Cluster, get_cluster, to_ns
from simulator.elastic.agent import Agent, lost, whole_outcome
from simulator.elastic.incarnation import Incarnation, Setup, launcher
from simulator.elastic.policy import Policy
from simulator.errors import OUTCOME_ERRORS, UsageError
from simulator.faults import FaultPlan
from simulator.memory.report import MemoryReport
from simulator.outcome import COMPLETED, Outcome
from simulator.start import Start
from simulator.trace import Trace

if TYPE_CHECKING:
    from simulator.show.timeline import Timeline


@dataclass
class Run:
    """What a run left: see `run`.

    Attributes:
        results: what the function returned, by rank; None for ranks that did not return.
        outcome: how it ended, told by incarnation if there was a restart. trace: what every rank did.
        fired, not_fired: the faults of the plan that acted, and those whose point never came.
        output: (rank, line) that the ranks printed, in the order of virtual time.
        raw_output: what ranks wrote past Python (C++ warnings, child processes), by rank.
        incarnations: every start of the job, one if there was no restart. `results` are those of the last one.
    """

    results: list[Any]
    outcome: Outcome
    trace: Trace
    faults: FaultPlan
    fired: tuple[str, ...]
    not_fired: tuple[str, ...]
    output: list[tuple[int, str]] = field(repr=False)
    raw_output: dict[int, str] = field(repr=False)
    incarnations: tuple[Incarnation, ...] = field(repr=False)

    @property
    def killed(self) -> tuple[int, ...]:
        """Ranks that the plan killed, a rank twice if in two incarnations."""
        return tuple(e.rank for e in self.trace if e.op == "exit" and e.status == "killed")

    @property
    def memory(self) -> tuple[MemoryReport | None, ...]:
        """What each rank of the last incarnation held in tensors; None where it was not followed, or is not known."""
        return self.incarnations[-1].memory

    @property
    def lost(self) -> tuple[int, ...]:
        """Steps that were computed in vain: an incarnation finished them, and a later one did them again."""
        return lost(self.incarnations)

    @property
    def inconclusive(self) -> bool:
        """A fault of the plan never acted: the run shows nothing about it."""
        return bool(self.not_fired)

    @property
    def ok(self) -> bool:
        return self.outcome.name == COMPLETED and not self.inconclusive

    @property
    def replay(self) -> str:
        """The call that does it again."""
        return self.outcome.replay

    @cached_property
    def header(self) -> str:
        """One paragraph: what was run, and which of it is modelled."""
        h = self.trace.header
        plan = f"faults {h['faults']}" if h["faults"] else "no faults"
        ranks = "1 rank" if h["world_size"] == 1 else f"{h['world_size']} ranks"
        restarts = len(self.incarnations) - 1
        if restarts:
            ranks += f", {restarts} restart{'s' if restarts > 1 else ''}"
        return (
            f"{ranks}: real processes and gloo collectives (torch {h['torch']}); time is virtual, "
            f"as on a cluster of {h['cluster']}{clocks_in_words(h.get('rank_clocks'))}; "
            f"seed {h['seed']}, {plan}, {h['reduction']} reduction; "
            f"trace digest {self.trace.digest[:12]}"
        )

    def timeline(self) -> Timeline:
        """A picture of the trace: ranks by virtual time."""
        from simulator.show.timeline import timeline

        return timeline(self.trace, self.outcome)

    def save(self, path: str | Path) -> Path:
        """Save the trace as JSON lines."""
        return self.trace.save(path)

    def raise_for_outcome(self) -> Run:
        """This run if it is ok; otherwise raise the `RunError` that belongs to its outcome."""
        if self.outcome.name != COMPLETED:
            raise OUTCOME_ERRORS[self.outcome.name](self.outcome.explain())
        if self.inconclusive:
            raise UsageError(f"inconclusive: the run ended before {'; '.join(self.not_fired)} could act")
        return self

    def __repr__(self) -> str:
        inconclusive = f"\ninconclusive: never acted: {'; '.join(self.not_fired)}" if self.inconclusive else ""
        return f"<Run {self.outcome}{inconclusive}\n{self.header}>"


def run(
    fn: Callable[..., Any],
    world_size: int = 4,
    *,
    args: tuple[Any, ...] = (),
    rank_args: Sequence[tuple[Any, ...]] | None = None,
    cluster: str | Cluster = "a100-80gb",
    faults: FaultPlan | str | None = None,
    seed: int = 0,
    restarts: int = 0,
    policy: Policy = "restart",
    reduction: str = "stock",
    timeout_s: float = 1800.0,
    cpu_limit_s: float = 30.0,
    memory_gib: float | None = None,
    clocks: str = "virtual",
    jitter: float = 0.0,
    debug_rank: int | None = None,
    echo: bool = True,
    replay: str = "",
) -> Run:
    """Run ``fn(*args, *rank_args[rank])`` in `world_size` processes with torch.distributed initialised.

    Args:
        fn: any function, also from a notebook cell; it uses `torch.distributed` as it would under torchrun.
        rank_args: one tuple a rank; a rank sees only its own.
        faults: a plan or its text, ``"kill(rank=2, step=3)"``.
        restarts: how often an agent starts the job again after a rank failed; with one, the first failure stops all
            ranks.
        policy: what the agent does then: "restart" with as many ranks, "shrink" (without those that failed), or a
            function ``decide(exits, progress)`` that returns "restart", "shrink", "grow", "give_up" or a pair such as
            ``("shrink", 3)`` (`simulator.elastic.policy`).
        reduction: "stock" (gloo's own order) or "rank_order" (sums that do not depend on the layout).
        timeout_s: virtual seconds after which a collective that nobody completes times out.
        cpu_limit_s: processor seconds that a rank may use between two coordination points; it may be a quarter more.
        memory_gib: follow the tensors of every rank (`Run.memory`); what would hold more GiB than this raises
            `VirtualOutOfMemory` in the rank. ``math.inf`` follows without a limit.
        clocks: "virtual": in the ranks `time.time`, `perf_counter` and `sleep` are virtual (`monotonic` is real);
            "real": they are the machine's.
        jitter: relative spread of operator times, drawn from the seed (log-normal): 0.05 for what one GPU varies.
        debug_rank: pdb, breakpoint() and input() of this rank work, at the terminal or the notebook of the caller; the
            others wait meanwhile, in no virtual time.
        echo: print the ranks' output as it comes, and the explanation of an outcome other than Completed.
        replay: what does this run again, for the explanation; this call unless given.

    Returns:
        The `Run`, whatever the ranks did.

    Raises:
        UsageError: the call cannot work (world size, reduction, something that cannot be sent to a rank).
        FaultPlanError: a plan that cannot be read or names a rank that is not there.
    """
    plan = FaultPlan.of(faults)
    check_call(
        fn,
        world_size,
        rank_args,
        reduction=reduction,
        clocks=clocks,
        jitter=jitter,
        memory_gib=memory_gib,
        timeout_s=timeout_s,
        cpu_limit_s=cpu_limit_s,
    )
    check_debug_rank(debug_rank, world_size)
    check_restarts(restarts, policy)
    plan.check_ranks(world_size)
    machine = get_cluster(cluster)
    settings = {
        "clock": "virtual",
        "world_size": world_size,
        "seed": seed,
        "faults": str(plan),
        "cluster": machine.name,
        "reduction": reduction,
        "timeout_ns": to_ns(timeout_s),
        "jitter": jitter,
        "memory_gib": memory_gib,
        "rank_clocks": clocks,
        "torch": version("torch").partition("+")[0],
        **({"restarts": restarts} if restarts else {}),
    }
    world = launch.world()
    common = Start(
        world_size=world_size,
        seed=seed,
        timeout_s=timeout_s,
        cpu_limit_s=cpu_limit_s,
        reduction=reduction,
        sys_path=[os.path.abspath(path) for path in sys.path],
        cwd=world.cwd or os.getcwd(),
        environ=world.environ or dict(os.environ),
        ranks_per_node=machine.gpus_per_node,
        max_restarts=restarts,
        clocks=clocks,
        gpu=None if machine.gpu.is_free else msgspec.to_builtins(machine.gpu),
        jitter=jitter,
        debug_rank=-1 if debug_rank is None else debug_rank,
        memory_bytes=_memory_bytes(memory_gib),
    )
    setup = Setup(
        machine,
        cpu_limit_s,
        echo,
        restarts > 0,
        settings,
        f"replay: {replay or call_in_words(fn, args, settings, policy)}",
    )
    agent = Agent(
        launcher(setup, common, fn, args, rank_args),
        plan,
        machine,
        restarts=restarts,
        policy=policy,
        largest=MAX_WORLD_SIZE if rank_args is None else len(rank_args),
        tell=partial(print, flush=True) if echo else _say_nothing,
    )
    agent.run(world_size)
    result = _make_run(agent, plan, settings)
    if echo:
        _echo(result)
    return result


def _memory_bytes(memory_gib: float | None) -> int:
    """As `Start` has it: -1 for nothing to follow, 0 for no limit."""
    if memory_gib is None:
        return -1
    return 0 if memory_gib == math.inf else int(memory_gib * 2**30)


def _say_nothing(_: str) -> None:
    """Without `echo`."""


def _make_run(agent: Agent, plan: FaultPlan, settings: dict[str, Any]) -> Run:
    parts = agent.incarnations
    sizes = [part.world_size for part in parts]
    header = {**settings, "world_size": max(sizes), **({"world_sizes": sizes} if len(parts) > 1 else {})}
    trace, outcome = Trace(header, [event for part in parts for event in part.events]), whole_outcome(parts)
    trace.header["outcome"] = outcome.name
    trace.header["groups"] = [[name, list(ranks)] for name, ranks in parts[-1].groups]
    output = [line for part in parts for line in part.output]
    raw = {rank: b"".join(part.raw.get(rank, b"") for part in parts) for part in parts for rank in part.raw}
    return Run(
        list(parts[-1].results),
        outcome,
        trace,
        plan,
        agent.ledger.fired,
        agent.ledger.not_fired,
        output,
        {rank: data.decode(errors="replace") for rank, data in raw.items()},
        tuple(parts),
    )


def _echo(result: Run) -> None:
    """What a person has to know beyond the ranks' own lines."""
    for rank, text in sorted(result.raw_output.items()):
        print("".join(f"[rank {rank}] {line}\n" for line in text.splitlines()), end="")
    if result.outcome.name != COMPLETED:
        print(result.outcome.explain())
    elif result.outcome.history:
        print(result.outcome.history.splitlines()[-1].strip())
    if result.inconclusive:
        print(f"inconclusive: the run ended before {'; '.join(result.not_fired)} could act")
    sys.stdout.flush()
