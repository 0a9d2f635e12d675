"""The questions of lab1/full-search: drawn hardware, brute force over all layouts, and how many calls are allowed."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.lab1.budget import make_cluster
from autograder.checks.lab1.search_job import Job
from simulator.planner import MODELS, Layout

GIB = 2**30
VARIANTS = ("as it is", "with half as much memory again", "with twice the bandwidth")
#: A search may ask so many times as often as `frugal`, and SPARE times more.
SLACK, SPARE = 1.5, 10
#: Brute force asks at least so many times the calls that are allowed.
PRUNED = 1.5
Number = Annotated[int, msgspec.Meta(ge=1, le=10**7)]


class Case(cases.Case, frozen=True):
    """A model, hardware, and what a step may take."""

    model: Literal["1b", "7b", "13b", "30b"] = "7b"
    gpus: Annotated[int, msgspec.Meta(ge=2, le=128)] = 16
    batch: Number = 64
    gpus_per_node: Literal[4, 8] = 8
    tflops: Number = 300
    memory_gib: Number = 80
    intra: Number = 200
    inter: Number = 25
    deadline_ms: Number = 10**7

    @property
    def label(self) -> str:
        """The case in words."""
        text = f"{self.model} on {self.gpus} GPUs of {self.memory_gib} GiB and {self.tflops} TFLOP/s, {self.inter} GB/s"
        return f"{text} between nodes of {self.gpus_per_node}, batch {self.batch}, a step in {self.deadline_ms} ms"

    def asked(self) -> list[Job]:
        """The three questions, in the order of VARIANTS."""
        room, deadline, model = self.memory_gib * GIB, self.deadline_ms / 1e3, MODELS[self.model]
        numbers = (self.tflops, self.memory_gib, self.gpus_per_node)
        slow, fast = (make_cluster(*numbers, n * self.intra, n * self.inter) for n in (1, 2))
        given = ((slow, room), (slow, 1.5 * room), (fast, room))
        return [Job(model, self.gpus, self.batch, cluster, bytes_, deadline) for cluster, bytes_ in given]


class Best(msgspec.Struct, frozen=True):
    """What brute force finds, the calls that it makes, and the calls that are allowed."""

    infeasible: str
    number: float
    brute: int
    allowed: int
    kind: str = ""


def words(layout: Layout) -> str:
    """All that is chosen of a layout."""
    text = f"dp{layout.dp} x tp{layout.tp} x pp{layout.pp}, ZeRO {layout.zero}, micro-batch {layout.micro_batch} x "
    text += f"{layout.accumulation}, recompute {layout.recompute}"
    plain = Layout(
        layout.dp,
        layout.tp,
        layout.pp,
        zero=layout.zero,
        micro_batch=layout.micro_batch,
        accumulation=layout.accumulation,
        recompute=layout.recompute,
        sequence_parallel=layout.tp > 1,
    )
    return text + ("" if layout == plain else ", and other fields not as in the task")


def space(job: Job) -> Iterator[Layout]:
    """Every layout by the rules of the task."""
    model = job.model
    for tp in (1, 2, 4, 8):
        if tp > job.gpus_per_node or job.gpus % tp or model.heads % tp or model.d_ffn % tp:
            continue
        for pp in range(1, job.gpus // tp + 1):
            dp = job.gpus // tp // pp
            if dp * tp * pp == job.gpus and model.layers % pp == 0 and job.batch % dp == 0:
                yield from _variants(dp, tp, pp, job.batch // dp)


def _variants(dp: int, tp: int, pp: int, each: int) -> Iterator[Layout]:
    stages = (0,) if dp == 1 else (0, 1) if pp > 1 else (0, 1, 2, 3)
    for micro_batch in (1 << k for k in range(each.bit_length()) if each % (1 << k) == 0):
        for zero in stages:
            for recompute in ("none", "full"):
                yield Layout(
                    dp,
                    tp,
                    pp,
                    zero=zero,
                    micro_batch=micro_batch,
                    accumulation=each // micro_batch,
                    recompute=recompute,
                    sequence_parallel=tp > 1,
                )


def brute(job: Job) -> tuple[str, float, str]:
    """(reason or "", the number of the answer, the kind of the best layout) by asking everything."""
    everything = [(layout, job.memory(layout)) for layout in space(job)]
    if not everything:
        return "batch", 0.0, ""
    fitting = [layout for layout, needed in everything if needed <= job.room]
    if not fitting:
        return "memory", min(needed for _, needed in everything), ""
    seconds, best = min(((job.seconds(layout), layout) for layout in fitting), key=lambda pair: pair[0])
    return ("" if seconds <= job.deadline else "deadline"), seconds, best.kind


def frugal(job: Job) -> int:
    """Calls of a search with the three rules of the task: `bound`, what is smallest, what is larger."""
    groups: dict[tuple[int, ...], list[Layout]] = {}
    for layout in space(job):
        groups.setdefault(_group(layout), []).append(layout)
    left: list[Layout] = []
    for members in groups.values():
        if job.memory(min(members, key=_size)) <= job.room:
            left += members
    best, too_large = math.inf, list[Layout]()
    for layout in sorted(left, key=job.bound):
        if job.bound(layout) >= best:
            break
        if any(_is_larger(layout, other) for other in too_large):
            continue
        if job.memory(layout) > job.room:
            too_large.append(layout)
        else:
            best = min(best, job.seconds(layout))
    return job.calls


def _group(layout: Layout) -> tuple[int, ...]:
    """Layouts whose memory can be compared: with one micro-batch a step, gradients are kept in another way."""
    return layout.dp, layout.tp, layout.pp, layout.accumulation == 1


def _size(layout: Layout) -> tuple[int, int, bool]:
    return layout.micro_batch, -layout.zero, layout.recompute == "none"


def _is_larger(layout: Layout, other: Layout) -> bool:
    """Whether it cannot need less memory than the other one."""
    return _group(layout) == _group(other) and all(a >= b for a, b in zip(_size(layout), _size(other), strict=True))


@functools.cache
def best_of(case: Case, question: int) -> Best:
    """What is right for one of the questions."""
    asked, again = case.asked()[question], case.asked()[question]
    reason, number, kind = brute(asked)
    return Best(reason, number, asked.calls, int(SLACK * frugal(again)) + SPARE, kind)


#: (reason or "", what the best layout must use): no one split and no shortcut is right everywhere.
KINDS = (
    ("", "PP"),
    ("", "TP"),
    ("", "FSDP"),
    ("", ""),
    ("memory", ""),
    ("memory", ""),
    ("deadline", ""),
    ("batch", ""),
)


def visible() -> list[Case]:
    """Hardware that asks for other splits, and each reason why nothing is possible."""
    return [
        Case(model="30b", gpus=24, batch=32, tflops=657, memory_gib=65, inter=2),
        Case(model="7b", gpus=16, batch=96, tflops=205, memory_gib=116, inter=56),
        Case(model="13b", gpus=16, batch=32, gpus_per_node=4, tflops=521, memory_gib=76, inter=55),
        Case(model="13b", gpus=48, batch=48, gpus_per_node=4, tflops=107, memory_gib=44, inter=59),
        Case(model="30b", gpus=12, batch=64, tflops=722, memory_gib=42, inter=2),
        Case(model="30b", gpus=12, batch=128, tflops=539, memory_gib=10, inter=57),
        Case(model="13b", gpus=16, batch=192, gpus_per_node=4, tflops=266, memory_gib=86, inter=18, deadline_ms=10121),
        Case(model="1b", gpus=24, batch=128, tflops=166, memory_gib=99, inter=35),
    ]


def drawn(rng: random.Random) -> list[Case]:
    """A case of each kind."""
    return [_draw(rng, *kind) for kind in KINDS]


def _draw(rng: random.Random, reason: str, kind: str) -> Case:
    """Draw hardware until the case is of that kind, and brute force far above what is allowed."""
    while True:
        case = _hardware(rng)
        possible = next(space(case.asked()[0]), None) is not None
        if not possible and reason == "batch":
            return case
        if not possible or reason == "batch":
            continue
        found, number, best = brute(case.asked()[0])
        if found != ("" if reason == "deadline" else reason) or kind not in best:
            continue
        if reason == "deadline":
            case = msgspec.structs.replace(case, deadline_ms=max(1, int(800 * number)))
        if best_of(case, 0).brute > PRUNED * best_of(case, 0).allowed:
            return case


def _hardware(rng: random.Random) -> Case:
    return Case(
        draw=cases.number(rng),
        model=rng.choice(("1b", "7b", "13b", "30b")),
        gpus=rng.choice((8, 12, 16, 24, 32, 48)),
        batch=rng.choice((32, 48, 64, 96, 128, 192)),
        gpus_per_node=rng.choice((4, 8)),
        tflops=rng.randint(100, 1000),
        memory_gib=rng.randint(6, 120),
        intra=rng.randint(40, 400),
        inter=rng.randint(2, 60),
    )
