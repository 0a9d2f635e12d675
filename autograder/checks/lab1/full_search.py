"""Check of lab1/full-search: the best of all layouts, with few questions to memory and cost.

The answer is compared with brute force over the same layouts, on hardware that is drawn. Each case is asked three
times: as it is, with half as much memory again, with twice the bandwidth. Calls are counted, never seconds here.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from autograder.checks.check import Check, Property
from autograder.checks.compare import wrong_number
from autograder.checks.lab1.full_search_cases import GIB, VARIANTS, Best, Case, best_of, drawn, space, visible, words
from autograder.checks.lab1.search_job import Job
from autograder.checks.seen import Fault, Seen
from simulator.planner import MODELS

SAME = 1e-9


class Answer(msgspec.Struct):
    """What `search` returned: a reason, or a layout (by its words); the number with it; how often it asked."""

    infeasible: str = ""
    layout: str = ""
    number: float = 0.0
    calls: int = 0


class Said(msgspec.Struct):
    """The words of the layouts that were enumerated, and the answers."""

    layouts: list[str]
    answers: list[Answer]


def on_rank(case: Case, layouts: Any, search: Any) -> Said:
    """The student's layouts and answers."""
    jobs = case.asked()
    found = layouts(MODELS[case.model], case.gpus, case.batch, case.gpus_per_node)
    return Said([words(layout) for layout in list(found)[:5000]], [_answer(search(job), job) for job in jobs])


def _answer(said: Any, job: Job) -> Answer:
    if reason := said.get("infeasible"):
        return Answer(str(reason)[:40], "", float(said.get("needs", 0.0)), job.calls)
    return Answer("", words(said["layout"]), float(said["seconds"]), job.calls)


def _asked(seen: Seen[Case, Said]) -> list[tuple[str, Answer, Best, Job]]:
    """For each question its name, what was answered, what is right, and the job to ask."""
    rights = [best_of(seen.case, k) for k in range(len(VARIANTS))]
    return list(zip(VARIANTS, seen.said[0].answers, rights, seen.case.asked(), strict=True))


def _wrong_space(seen: Seen[Case, Said]) -> Fault | None:
    """A layout that is missing, there twice, or against the rules."""
    wanted, found = [words(layout) for layout in space(seen.case.asked()[0])], seen.said[0].layouts
    numbers = f"{len(found)} layouts, of which {len(wanted)} are asked for: "
    for text, wrong in (("not one of them is ", set(found) - set(wanted)), ("missing is ", set(wanted) - set(found))):
        if wrong:
            first = next(w for w in [*found, *wanted] if w in wrong)
            return Fault(f"{numbers}{text}{first}; {len(wrong)} like that.", f"{len(wanted)}", f"{len(found)}")
    if len(found) != len(wanted):
        return Fault(f"{numbers}some are there twice.", f"{len(wanted)}", f"{len(found)}")
    return None


def _wrong_reason(seen: Seen[Case, Said]) -> Fault | None:
    """A layout where none is possible, none where one is, another reason, or another number with it."""
    for name, said, best, _ in _asked(seen):
        if said.infeasible != best.infeasible:
            says = f"infeasible because of {said.infeasible}" if said.infeasible else "a layout"
            right = f"what forbids all is the {best.infeasible}" if best.infeasible else "there is one"
            return Fault(f"{name}: you say {says}, but {right}.", best.infeasible or "a layout", says)
        if best.infeasible == "memory" and (
            fault := wrong_number(f"{name}: needs", None, said.number, best.number, SAME)
        ):
            return fault
    return None


def _wrong_optimum(seen: Seen[Case, Said]) -> Fault | None:
    """A layout that is none of them, does not fit, is slower than the best, or has another time than was said."""
    for name, said, best, job in _asked(seen):
        if said.infeasible == best.infeasible == "deadline" and (
            fault := wrong_number(f"{name}: the seconds of the best", None, said.number, best.number, SAME)
        ):
            return fault
        if said.infeasible or best.infeasible:
            continue
        layout = next((found for found in space(job) if words(found) == said.layout), None)
        if layout is None:
            return Fault(f"{name}: {said.layout} is none of the layouts.", "one of them", said.layout)
        if (needed := job.memory(layout)) > job.room:
            text = f"{name}: {said.layout} needs {needed / GIB:.2f} GiB, there are {job.room / GIB:.2f}."
            return Fault(text, f"at most {job.room / GIB:.2f} GiB", f"{needed / GIB:.2f} GiB")
        if (seconds := job.seconds(layout)) > best.number * (1 + SAME):
            text = f"{name}: {said.layout} takes {seconds:.6g} s a step, the best takes {best.number:.6g} s."
            return Fault(text, f"{best.number:.6g} s", f"{seconds:.6g} s")
        if fault := wrong_number(f"{name}: seconds", None, said.number, seconds, SAME):
            return fault
    return None


def _inconsistent(seen: Seen[Case, Said]) -> Fault | None:
    """More memory or more bandwidth that makes it slower, or impossible."""
    plain, *better = (a.number if not a.infeasible else math.inf for a in seen.said[0].answers)
    for name, seconds in zip(VARIANTS[1:], better, strict=True):
        if seconds > plain * (1 + SAME):
            text = f"{plain:.6g} s a step, but {seconds:.6g} s {name}."
            return Fault(text, f"at most {plain:.6g} s", f"{seconds:.6g} s")
    return None


def _too_many_calls(seen: Seen[Case, Said]) -> Fault | None:
    """More questions to memory and seconds than allowed."""
    for name, said, best, _ in _asked(seen):
        if said.calls > best.allowed:
            text = f"{name}: {said.calls} calls of memory and seconds together; at most {best.allowed} are allowed. "
            text += f"Asking for everything takes {best.brute}."
            return Fault(text, f"at most {best.allowed} calls", f"{said.calls} calls")
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("space", "The layouts are not the ones asked for", _wrong_space, "reported"),
        Property("reason", "Whether and why no layout is possible", _wrong_reason, "reported"),
        Property("consistency", "Better hardware makes it worse", _inconsistent, "reported", after="reason"),
        Property("optimum", "Another layout is better", _wrong_optimum, "reported", after="reason"),
        Property("calls", "It asks too often", _too_many_calls, "reported", after="reason"),
    ),
)
