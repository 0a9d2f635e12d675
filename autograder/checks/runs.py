"""From a simulator run to findings that every exercise can have: it hangs, crashes, spins or uses an unknown name."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from autograder.checks import names
from autograder.checks.student import FILE, Assembly
from autograder.results import Finding

if TYPE_CHECKING:
    from simulator import Run

Progress = Callable[[str], None]
CPU_LIMIT_S = 3.0  # a rank that burns this much without communicating is in an endless loop
_NAME_ERROR = re.compile(r"name '([^']+)' is not defined")
_REMEDY = re.compile(r"\s*Everyone (?:sends|receives) and nobody [^.]*\.")  # the hints come to it step by step


def replay_line(exercise_id: str, case_name: str) -> str:
    """The command that runs one case again."""
    return f"lockstep check {exercise_id} --case {case_name}"


def with_picture(finding: Finding, run: Run) -> Finding:
    """The finding with the timeline of ``run`` as its picture; unchanged if nothing happened in the run."""
    if not len(run.trace):
        return finding
    timeline = run.timeline()
    return msgspec.structs.replace(finding, picture_svg=timeline.svg(), picture_text=timeline.text())


def outcome_finding(
    run: Run, where: str, label: str, replay: str, assembly: Assembly, *, with_ranks: bool = True
) -> Finding:
    """The finding for a run of ``assembly`` that did not complete.

    Args:
        run: the run. where: how its text begins ("On 3 ranks (length 7)"). label: the case for people.
        replay: the command that runs the case again.
        with_ranks: False for a function that runs alone: then no rank is named and no timeline drawn.
    """
    outcome, world_size = run.outcome, int(run.trace.header["world_size"])
    key, title, text = _explain(outcome, with_ranks)
    message = outcome.error["message"] if outcome.error else ""
    if key == "missing":  # the same in every case, so none is named
        return _missing(message, assembly)
    if key == "name-only-in-kernel":
        title, text = _did_you_mean(_NAME_ERROR.search(message), title, text, assembly)
    ranks = tuple(outcome.ranks)
    finding = Finding(
        key=key,
        title=title,
        text=f"{where}: {text}",
        expected="every rank returns" if with_ranks else "it returns",
        seen=_seen(outcome),
        rank=ranks[0] if len(ranks) == 1 and with_ranks and key != "deadlock" else None,  # there the others wait, too
        world_size=world_size,
        case=label,
        replay=replay,
    )
    pictured = with_ranks and key not in ("unfinished", "name-only-in-kernel")
    return with_picture(finding, run) if pictured else finding


def _missing(name: str, assembly: Assembly) -> Finding:
    """The function that the exercise asks for is not there, perhaps because its name is spelled differently."""
    near = names.similar(name, assembly.source, outside_functions=True)
    hint = f" It defines {near}: did you mean {name}?" if near else ""
    return Finding(
        key="missing",
        title="The function is missing",
        text=f"The exercise cell does not define {name}.{hint}",
        expected=f"the cell defines {name}",
        seen=f"it defines {near}" if near else "it does not",
    )


def _did_you_mean(found: re.Match[str] | None, title: str, text: str, assembly: Assembly) -> tuple[str, str]:
    """Title and text that begin with the likeliest spelling, where the cell or the setup code has one."""
    near = names.similar(found[1], assembly.source, assembly.setup) if found else ""
    if not near:
        return title, text
    return f"{title}: did you mean {near!r}?", f"did you mean {near!r}? {text[0].upper()}{text[1:]}"


def _seen(outcome: Any) -> str:
    """The exception that ended a rank, or the outcome's name."""
    return f"it raises {outcome.error['type']}" if outcome.name == "RankFailed" and outcome.error else str(outcome.name)


def outcome_key(outcome: Any) -> str:
    """The finding key of an outcome that is not Completed."""
    return _explain(outcome, True)[0]


def _explain(outcome: Any, with_ranks: bool) -> tuple[str, str, str]:
    if outcome.name == "CollectiveTimeout":
        return "deadlock", "The ranks wait for each other", f"nobody can go on. {_REMEDY.sub('', outcome.text)}"
    if outcome.name == "CollectiveMismatch":
        return "mismatch", "Two ranks do not agree on a message", outcome.text
    if outcome.name == "NoProgress":
        if not with_ranks:
            return "endless-loop", "It never returns", "it computes on and on: an endless loop."
        text = "a rank computes on and on without sending, receiving or returning: an endless loop. "
        return "endless-loop", "A rank never returns", text + outcome.text
    if outcome.name == "RankFailed" and outcome.error:
        return _explain_error(outcome.error, f"rank {outcome.error['rank']}" if with_ranks else "it")
    return "crash", "A rank ended before it returned", outcome.text


def _explain_error(error: dict[str, Any], who: str) -> tuple[str, str, str]:
    kind, message = error["type"], error["message"]
    name = _NAME_ERROR.search(message)
    if kind == "NotImplementedError":
        return "unfinished", "Not written yet", f"{who} reached NotImplementedError{_where(error)}."
    if kind == "MissingNameError":
        return "missing", "The function is missing", f"the exercise cell does not define {message}."
    if kind in ("NameError", "UnboundLocalError") and name and not hasattr(builtins, name[1]):
        text = (
            f"the name {name[1]!r} is not defined{_where(error)}. A check runs the setup cells and this "
            "exercise cell alone, in a fresh process: a function or import from another cell, or one typed and deleted "
            f"later, exists only in your kernel. Define {name[1]!r} inside the exercise cell, or correct its spelling."
        )
        return "name-only-in-kernel", f"{name[1]} is not defined in the exercise cell", text
    if kind == "EndlessExchangeError":
        text = f"{who} sends and receives on and on{_where(error)}: {message} messages and no end. Count your steps."
        return "endless-loop", "A rank never returns", text
    if kind == "ForbiddenError":
        text = f"{who} used {message}{_where(error)}. This exercise asks you to write what it does."
        return "forbidden", "The exercise is to write this yourself", text
    if kind == "SystemExit":
        text = f"{who} called sys.exit{_where(error)} and never returned."
        return "crash", "A rank left with sys.exit", text
    return (
        "crash",
        f"{'A rank' if who != 'it' else 'It'} failed with {kind}",
        f"{who} raised {kind}: {message}{_where(error)}.",
    )


def _where(error: dict[str, Any]) -> str:
    """`` in line 7 of your cell: `text` ``, from the innermost frame that is the student's."""
    own = [frame for frame in error.get("frames", ()) if frame["path"] == FILE]
    if not own:
        return ""
    frame = own[-1]
    return f", in line {frame['line']} of your cell" + (f": `{frame['text'].strip()}`" if frame.get("text") else "")
