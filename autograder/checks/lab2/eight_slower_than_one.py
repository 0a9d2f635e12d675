"""Check of lab2/eight-slower-than-one: from the trace of a slow job to its cause, repair after repair.

The student's function sees traces only. What a repair is worth is computed again in the trusted process.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Annotated, Any

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.lab2.jobs import (
    BROKEN,
    CAUSES,
    Job,
    Model,
    loader_keeps_up,
    reduces_ns,
    run_job,
    speedup,
    with_causes,
)
from autograder.checks.seen import Fault, Seen

EXERCISE = "lab2/eight-slower-than-one"
ROUNDS = 5
NOTHING = "nothing"  # what find_cause returns when it sees no cause; the repairs end there
USEFUL = 1.05  # a repair that gains less than this factor was not of a cause
MARGIN = 1.05  # how clearly drawn jobs are above or below the target
KINDS = (  # (causes, what is also set up badly but does no harm)
    (("tiny-batch",), ()),
    (("slow-link",), ()),
    (("slow-loader",), ()),
    (("slow-loader",), ("one-bucket",)),
    (("slow-loader",), ("no-overlap",)),
    (("slow-link", "one-bucket"), ()),
    (("slow-link", "no-overlap"), ()),
    (("slow-loader", "slow-link"), ()),
    (("tiny-batch", "slow-link"), ()),
    (("slow-loader", "one-bucket"), ()),
)


class Case(cases.Case, frozen=True):
    """A job: its model, and ``setup``, a number whose bits say which of CAUSES are set up badly; ``goal`` is what the
    repaired job has to beat. It travels with the case: a rank of graded code has no course.yaml.
    """

    setup: Annotated[int, msgspec.Meta(ge=0, lt=32)] = 8
    layers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 12
    layer_mb: Annotated[int, msgspec.Meta(ge=1, le=500)] = 60
    forward_us: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    launch_us: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 20
    load_us: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 200
    goal: Annotated[float, msgspec.Meta(ge=0, le=8)] = 0.0  # 0: the target of the course

    @property
    def label(self) -> str:
        """What may be told of the job: not what is wrong with it."""
        return f"a model of {self.layers} layers of {self.layer_mb} MB"

    @property
    def model(self) -> Model:
        """What one replica has to do."""
        return Model(self.layers, self.layer_mb, self.forward_us, self.launch_us, self.load_us)

    @property
    def job(self) -> Job:
        """The job as it was set up."""
        return with_causes(tuple(cause for k, cause in enumerate(CAUSES) if self.setup >> k & 1))


def setup(causes: tuple[str, ...]) -> int:
    """The number of a set of causes."""
    return sum(1 << CAUSES.index(cause) for cause in causes)


@functools.cache
def target() -> float:
    """From course.yaml: times the samples a second of one GPU."""
    from autograder import course

    return course.load().targets[EXERCISE]


def repaired(job: Job, cause: str) -> Job:
    """The job without this cause; unchanged if there is no such cause."""
    return dataclasses.replace(job, **{name: getattr(Job(), name) for name in BROKEN.get(cause, {})})


def visible() -> list[Case]:
    """Fixed jobs of every kind."""
    return _jobs(random.Random("visible"))


def drawn(rng: random.Random) -> list[Case]:
    """Other jobs of the same kinds."""
    return _jobs(rng)


def _jobs(rng: random.Random) -> list[Case]:
    return [_draw(rng, causes, harmless) for causes, harmless in KINDS]


def _draw(rng: random.Random, causes: tuple[str, ...], harmless: tuple[str, ...]) -> Case:
    """Draw until the job is slower than one GPU, each cause keeps it from the target, and nothing else does."""
    while True:
        case = Case(
            setup=setup(causes + harmless),
            layers=rng.randint(8, 16),
            layer_mb=rng.randint(5, 110),
            forward_us=rng.randint(2, 30),
            launch_us=rng.randint(10, 30),
            load_us=rng.randint(50, 6000),
            goal=target(),
        )
        if _is_as_meant(case, causes, harmless):
            return case


def _is_as_meant(case: Case, causes: tuple[str, ...], harmless: tuple[str, ...]) -> bool:
    goal, model = target(), case.model
    if (
        not loader_keeps_up(model)
        or speedup(model, case.job) >= 1
        or speedup(model, with_causes(harmless)) < goal * MARGIN
    ):
        return False
    return all(speedup(model, with_causes((cause, *harmless))) < goal / MARGIN for cause in causes)


def on_rank(case: Case, find_cause: Any) -> list[str]:
    """Repair what the function names, trace after trace, until the target is met."""
    job, goal, said = case.job, case.goal or target(), list[str]()
    while speedup(case.model, job) < goal and len(said) < ROUNDS and NOTHING not in said:
        said.append(str(find_cause(run_job(case.model, job)))[:60])
        job = repaired(job, said[-1])
    return said


def useless_repair(seen: Seen[Case, list[str]]) -> Fault | None:
    """The first named cause whose repair gains nothing."""
    for said in seen.said:
        job, model = seen.case.job, seen.case.model
        for number, cause in enumerate(said, 1):
            before, job = job, repaired(job, cause)
            if cause == NOTHING:
                break
            if cause not in CAUSES:
                text = f"round {number}: find_cause returned {cause!r}. The causes are {', '.join(CAUSES)}."
                return Fault(text, " or ".join(CAUSES), cause)
            was, now = speedup(model, before), speedup(model, job)
            if now < was * USEFUL:
                text = f"round {number}: find_cause said {cause!r}. With that repaired the job goes from {was:.2f} to "
                text += f"{now:.2f} times one GPU, so it was not what the job waits for. {_evidence(model, before)}"
                return Fault(text, "a cause whose repair helps", cause, 0)
    return None


def _evidence(model: Model, job: Job) -> str:
    """Where the time of a step goes, as the trace shows it."""
    mine = [e for e in run_job(model, job) if e.rank == 0 and e.step == 1]
    spent = {p: sum(e.end_ns - e.start_ns for e in mine if e.phase == p and e.op == "compute") for p in _PHASES}
    reduces = reduces_ns(model, job, 0)
    done = spent["backward"]
    exposed, early = max(0, reduces[-1][2] - done), sum(issue < done for issue, *_ in reduces)
    rate = max(num_bytes / (end - start) for _, start, end, num_bytes in reduces)
    return (
        f"In a step, rank 0 waits {spent['load'] / 1e6:.1f} ms for the loader, computes "
        f"{(spent['forward'] + done) / 1e6:.1f} ms, and waits {exposed / 1e6:.1f} ms for all-reduces after its last "
        f"gradient: {len(reduces)} of them, {early} issued before it, at up to {rate:.0f} GB/s."
    )


_PHASES = ("load", "forward", "backward")


def short_of_target(seen: Seen[Case, list[str]]) -> Fault | None:
    """A job that is still too slow after all rounds."""
    for said in seen.said:
        job, goal = seen.case.job, seen.case.goal or target()
        for cause in said:
            job = repaired(job, cause)
        have = speedup(seen.case.model, job)
        if have < goal:
            text = f"after {len(said)} repairs ({', '.join(said)}) the job makes {have:.2f} times the samples of one "
            text += f"GPU; the target is {goal:g}. {_evidence(seen.case.model, job)}"
            return Fault(text, f"at least {goal:g}", f"{have:.2f}", 0)
    return None


CHECK = Check(
    case=Case,
    said=list[str],
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("cause", "What was named is not what the job waits for", useless_repair, "reported"),
        Property("target", "The repaired job misses the target", short_of_target, "reported"),
    ),
)
