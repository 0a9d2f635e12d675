"""The agent: starts incarnations until one ends well, the restarts are used up, or its policy gives up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from simulator.cluster import Cluster, to_ns
from simulator.elastic.incarnation import Incarnation, Launch
from simulator.elastic.policy import Policy, Progress, decide
from simulator.faults import FaultPlan
from simulator.faults.ledger import Ledger
from simulator.outcome import Outcome, filled


class Agent:
    """One job. `tell` hears one line about every restart."""

    def __init__(
        self,
        launch: Launch,
        plan: FaultPlan,
        cluster: Cluster,
        *,
        restarts: int,
        policy: Policy,
        largest: int,
        tell: Callable[[str], None],
    ) -> None:
        self._launch, self._cluster, self._restarts, self._policy = launch, cluster, restarts, policy
        self._largest, self._tell = largest, tell
        self.ledger = Ledger(plan)
        self.incarnations: list[Incarnation] = []

    def run(self, world_size: int) -> None:
        """Fill `incarnations`; there is at least one."""
        start_ns = 0
        while True:
            number = len(self.incarnations)
            plan = self.ledger.plan_of(number, start_ns)
            one = self._launch(number, world_size, start_ns, plan, self.ledger.healing())
            self.ledger.settle(one.events)
            self.incarnations.append(one)
            if not one.has_failed or number >= self._restarts:
                return
            choice, world_size = decide(self._policy, one.exits, self._progress(), self._largest)
            self.incarnations[-1] = replace(one, choice=choice)
            if choice == "give_up":
                return
            start_ns = self._next_start_ns(one)
            self._tell(f"{_story(one)}\nThe agent starts {_ranks(world_size)} again ({choice}).")

    def _progress(self) -> Progress:
        one = self.incarnations[-1]
        return Progress(
            incarnation=one.number,
            restarts_left=self._restarts - one.number,
            world_size=one.world_size,
            first_world_size=self.incarnations[0].world_size,
            step=max(one.finished, default=-1),
            lost=lost(self.incarnations),
            time_s=one.end_ns / 1e9,
            outcome=one.outcome,
        )

    def _next_start_ns(self, one: Incarnation) -> int:
        """The failure is detected, every rank is gone, and the delay of a restart has passed."""
        failed_s = min(exit.time_s for exit in one.exits if exit.why not in ("done", "hung", "stopped"))
        detected_ns = to_ns(failed_s + self._cluster.failure_detection_s)
        return max(one.end_ns, detected_ns) + to_ns(self._cluster.restart_delay_s)


def lost(incarnations: Sequence[Incarnation]) -> tuple[int, ...]:
    """Steps that one incarnation finished and a later one entered again, in order; twice if they were lost twice."""
    found: list[int] = []
    for position, one in enumerate(incarnations):
        again = frozenset[int]().union(*(later.entered for later in incarnations[position + 1 :]))
        found += sorted(one.finished & again)
    return tuple(found)


def whole_outcome(incarnations: Sequence[Incarnation]) -> Outcome:
    """The outcome of the last incarnation, with what led to it."""
    last = incarnations[-1].outcome
    if len(incarnations) == 1 and not incarnations[0].choice:
        return last
    count = len(incarnations) - 1
    lines = []
    for one, after in zip(incarnations, [*incarnations[1:], None], strict=True):
        then = ""
        if after is not None:
            pause_s = (after.start_ns - one.end_ns) / 1e9
            then = f" -> {one.choice} with {_ranks(after.world_size)} after {pause_s:,g} virtual s"
        elif one.choice:
            then = f" -> {one.choice.replace('_', ' ')}"
        lines.append(filled(_story(one) + then))
    again = lost(incarnations)
    told = f"finished steps that were computed again: {', '.join(map(str, again)) or 'none'}"
    lines.append(f"  {count} restart{'' if count == 1 else 's'}; {told}")
    return replace(last, history="\n".join(lines))


def _story(one: Incarnation) -> str:
    steps = ""
    if one.entered:
        low, high = min(one.entered), max(one.entered)
        steps = f", steps {low} to {high}" if high > low else f", step {low}"
    span = f"{one.start_ns / 1e6:,.3f} to {one.end_ns / 1e6:,.3f} virtual ms"
    return f"incarnation {one.number} ({_ranks(one.world_size)}, {span}{steps}): {one.outcome}"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
