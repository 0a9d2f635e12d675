"""Names of operations, failures and faults, the same in the picture and in its text.

An operation is named as a PyTorch user would say it: ``all_reduce #2`` is the rank's third collective in its group
(counted from zero, as in a fault plan), ``recv from rank 1`` a point-to-point operation.
"""

from __future__ import annotations

from simulator.faults import FaultPlan
from simulator.show import units
from simulator.show.totals import RankTotals, last_ns, world_size
from simulator.trace import Event, Trace

STATUS_WORDS = {"mismatch": "mismatch", "lost": "peer lost", "pending": "never finished", "skipped": "skipped"}
WENT_WRONG = {"error": "raised an error", "crashed": "ended without a word", "spinning": "made no progress"}
"""How a rank may end by itself before its function returned."""


def step(event: Event) -> str:
    """Names the step in brackets, or nothing outside steps."""
    return f" (step {event.step})" if event.step >= 0 else ""


def at_step(event: Event) -> str:
    """Says at which step, or nothing outside steps."""
    return f" at step {event.step}" if event.step >= 0 else ""


def status(event: Event) -> str:
    """Says how an operation ended; a timeout says how long the rank was blocked, in virtual time."""
    if event.status != "timeout":
        return STATUS_WORDS.get(event.status, event.status)
    blocked_since = event.wait_ns if event.wait_ns >= 0 else event.issue_ns
    return f"timeout after {units.duration(event.end_ns - blocked_since)}" if event.end_ns >= 0 else "timeout"


def failure(event: Event) -> str:
    """Labels an operation that did not end well, such as ``all_reduce #3 (step 2), timeout after 1,800 s``."""
    return f"{event.label}{step(event)}, {status(event)}"


_TOLD = {
    "hang": "hangs",
    "preempt": "preempted",
    "corrupt": "bits flipped",
    "partition": "network cut",
    "slow_link": "link slowed down",
}


def fault(trace: Trace, event: Event) -> str:
    """Labels a fault that fired: ``killed at step 3``, ``slow x3``."""
    if event.op == "kill":
        return "killed" + at_step(event)
    if event.op == "slow":
        return "slow" + slow_factor(trace, event.rank)
    if event.op in _TOLD:
        return _TOLD[event.op] + at_step(event)
    return "skipped" + (f" collective #{event.seq}" if event.seq >= 0 else " a collective") + at_step(event)


def slow_factor(trace: Trace, rank: int) -> str:
    """Returns the factor by which the plan in the trace's header slows a rank, or nothing."""
    plan = FaultPlan.parse(str(trace.header.get("faults", "")))
    return "".join(f" \N{MULTIPLICATION SIGN}{fault.factor:g}" for fault in plan.of_rank(rank) if fault.kind == "slow")


def stuck(of_rank: RankTotals) -> str:
    """Says for how long a rank was stuck in operations that failed."""
    if not of_rank.is_stuck:
        return "-"
    return units.duration(of_rank.stuck_ns) if of_rank.stuck_ns else "no end"


def headline(trace: Trace, outcome_name: str) -> str:
    """Says in one line how a run ended, how many ranks it had and how much time passed."""
    span = max((last_ns(event) for event in trace.events), default=0)
    count = world_size(trace)
    return f"{outcome_name}: {count} {'rank' if count == 1 else 'ranks'}, {units.duration(span)} of {time(trace)}"


def time(trace: Trace) -> str:
    """Which time it is: virtual, or, in a recorded job, that of the wall clock."""
    return "wall-clock time" if trace.header.get("clock") == "wall" else "virtual time"


def provenance(trace: Trace) -> str:
    """Lists what the run depends on: seed, cluster, reduction and fault plan, as far as the header says."""
    known = [(key, trace.header.get(key)) for key in ("seed", "cluster", "reduction", "faults")]
    return ", ".join(f"{key} {value}" for key, value in known if value not in (None, "", "FaultPlan()"))
