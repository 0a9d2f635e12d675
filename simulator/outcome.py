"""How a run ended, and why: the first thing that went wrong, told in one paragraph."""

from __future__ import annotations

import json
import linecache
import signal
import textwrap
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.coordinator.protocol import RankReport, VerdictData
from simulator.coordinator.state import MAIN_THREAD, ranks_text
from simulator.diagnose import diagnose
from simulator.trace import Event, Trace

COMPLETED = "Completed"
_HANG = "CollectiveTimeout"  # the other outcomes name their cause themselves
_TAPE_LENGTH = 5
_MAX_WORDS, _MAX_FRAMES = 2000, 200  # of what a rank says about its own error
_MAX_LINES = 40  # of one message


@dataclass(frozen=True)
class Outcome:
    """`name` is Completed or the name of an error class; `ranks` are the culprits, all of them in a tie.

    Attributes:
        text: one paragraph: what happened, where, what to do.
        step: training step of the trouble, -1 for none.
        history: where the job was restarted, a line for each incarnation; else "".
        error: for RankFailed by exception: rank, type, message and frames ({file, line, function, text}).
        trace: what `explain` diagnoses where ranks hang.
    """

    name: str
    text: str
    ranks: tuple[int, ...] = ()
    step: int = -1
    error: dict[str, Any] | None = None
    history: str = field(default="", repr=False)
    tape: str = field(default="", repr=False)
    stacks: str = field(default="", repr=False)
    replay: str = field(default="", repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"

    def explain(self) -> str:
        """The paragraph, what `diagnose` makes of the trace, earlier incarnations, the last operations of every rank,
        where each one stood, and the line that replays the run.
        """
        found = diagnose(self.trace) if self.trace is not None and self.name == _HANG else None
        said = [str(self), f"Diagnosis, {found}" if found and not found.is_healthy else ""]
        paragraphs = [textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) for text in said]
        return "\n".join(filter(None, [*paragraphs, self.history, self.tape, self.stacks, self.replay]))


def filled(text: str) -> str:
    """An entry of a list as indented lines."""
    return textwrap.fill(
        text, 100, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


@dataclass(frozen=True)
class _Candidate:
    """Something that went wrong; the earliest one is the outcome, the rest are its consequences."""

    at_ns: int
    outcome: Outcome


def find_outcome(
    reports: Sequence[RankReport],
    verdicts: Sequence[VerdictData],
    exit_codes: Sequence[int | None],
    trace: Trace,
    replay_line: str,
    cells: Collection[str] = (),
) -> Outcome:
    """The root cause of a run, from what the coordinator saw and how the processes ended.

    `cells` are the files of notebook cells, whose text only this process knows.
    """
    errors = [_error_data(rank, report.error, cells) for rank, report in enumerate(reports)]
    candidates = _merge(
        [
            _of_rank(rank, report, errors[rank], exit_codes[rank])
            for rank, report in enumerate(reports)
            if _is_root(report)
        ]
    )
    candidates += [
        _Candidate(v.at_ns, Outcome(v.kind, v.text, v.ranks, v.step)) for v in verdicts if _counts(v, reports)
    ]
    first = min(candidates, key=lambda c: c.at_ns, default=_hanging(reports))
    if first is None:
        return Outcome(COMPLETED, _completed_text(reports, trace), replay=replay_line)
    found = first.outcome
    return replace(found, tape=tape(trace), stacks=_stacks(errors), replay=replay_line, trace=trace)


def _merge(candidates: list[_Candidate]) -> list[_Candidate]:
    """One candidate for ranks that failed in the same way at the same time."""
    groups: dict[tuple[int, str], list[_Candidate]] = {}
    for candidate in candidates:
        told = candidate.outcome.text.replace(f" {candidate.outcome.ranks[0]} ", " ", 1)
        groups.setdefault((candidate.at_ns, told), []).append(candidate)
    merged = []
    for same in groups.values():
        ranks = tuple(c.outcome.ranks[0] for c in same)
        first = same[0].outcome
        text = (
            first.text.replace(f"Rank {ranks[0]} ", f"{ranks_text(ranks).capitalize()} ", 1)
            if len(ranks) > 1
            else first.text
        )
        merged.append(_Candidate(same[0].at_ns, replace(first, text=text, ranks=ranks)))
    return merged


def _is_root(report: RankReport) -> bool:
    return report.why in ("crashed", "spinning") or (report.why == "error" and not report.derived)


def _counts(verdict: VerdictData, reports: Sequence[RankReport]) -> bool:
    """A lost peer is a consequence where the peer failed by itself, and forgiven where every survivor went on to the
    end.
    """
    if verdict.kind != "PeerLost":
        return True
    if any(_is_root(reports[rank]) for rank in verdict.ranks):
        return False
    return any(report.why not in ("done", "killed") for report in reports)


def _of_rank(rank: int, report: RankReport, error: dict[str, Any] | None, exit_code: int | None) -> _Candidate:
    step = f" at step {report.step}" if report.step >= 0 else ""
    where = _where(error)
    if report.why == "spinning":
        text = (
            f"Rank {rank}{step} made no progress{where}: it neither called a collective nor returned. Look for "
            "a loop whose end condition never becomes true, or a wait for something that never comes."
        )
        return _Candidate(report.clock_ns, Outcome("NoProgress", text, (rank,), report.step, error))
    if report.why == "crashed":
        text = f"The process of rank {rank} ended{step} before its function returned: {_exit_text(exit_code)}."
        return _Candidate(report.clock_ns, Outcome("RankFailed", text, (rank,), report.step))
    error = error or {"rank": rank, "type": "unknown error", "message": "", "frames": []}
    text = f"Rank {rank} failed{step}{where} with {error['type']}: {error['message']}"
    return _Candidate(report.clock_ns, Outcome("RankFailed", text, (rank,), report.step, error))


def _error_data(rank: int, data: bytes, cells: Collection[str]) -> dict[str, Any] | None:
    """The rank's own account of its exception; whatever it is not, it is data."""
    try:
        error = json.loads(data)
        frames = [_frame(frame) for frame in error["frames"][-_MAX_FRAMES:]]
        for frame in frames:
            if frame["path"] in cells:  # never another file that a rank may name
                frame["text"] = linecache.getline(frame["path"], frame["line"]).strip()
        kind = " ".join(_words(error["type"]).split())
        return {"rank": rank, "type": kind, "message": _words(error["message"]), "frames": frames}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {"rank": rank, "type": "unknown error", "message": "", "frames": []} if data else None


def _frame(said: dict[str, Any]) -> dict[str, Any]:
    line = said.get("line")
    words = {key: _words(said.get(key, "")) for key in ("file", "path", "function", "text")}
    return {**words, "line": line if isinstance(line, int) else 0}


def _words(said: Any) -> str:
    """A text of the rank's for people: not endless, and with control and format characters written out, which could
    move a cursor or turn a line round.
    """
    text = str(said)
    text = text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]} ..."
    lines = text.split("\n")
    lines[_MAX_LINES:] = ["..."] if len(lines) > _MAX_LINES else []
    return "\n".join("".join(map(_visible, line)) for line in lines)


def _visible(character: str) -> str:
    is_plain = character == "\t" or not unicodedata.category(character).startswith("C")
    return character if is_plain else ascii(character)[1:-1]


def _hanging(reports: Sequence[RankReport]) -> _Candidate | None:
    """Nobody waited for a rank that hangs: the others are through, and the job does not end."""
    hung = [rank for rank, report in enumerate(reports) if report.why == "hung"]
    if not hung:
        return None
    step = reports[hung[0]].step
    at = f" at step {step}" if step >= 0 else ""
    verb = "hangs" if len(hung) == 1 else "hang"
    text = (
        f"{ranks_text(hung).capitalize()} {verb}{at} by the fault plan, and nobody waits for it: no timeout ends the "
        "job. Only something that looks at the progress of every rank (a heartbeat) would notice."
    )
    return _Candidate(reports[hung[0]].clock_ns, Outcome("NoProgress", text, tuple(hung), step))


def _where(error: dict[str, Any] | None) -> str:
    if not error or not error["frames"]:
        return ""
    frame = error["frames"][-1]
    code = f": `{frame['text']}`" if frame["text"] else ""
    return f" in {frame['function']} ({frame['file']}, line {frame['line']}{code})"


def _exit_text(code: int | None) -> str:
    if code is None:
        return "it closed its connection to the coordinator"
    if code < 0:
        known = {int(each): each.name for each in signal.Signals}  # not the real-time ones
        return f"signal {known.get(-code, -code)}"
    return f"exit status {code} (os._exit?)"


def _completed_text(reports: Sequence[RankReport], trace: Trace) -> str:
    killed = [rank for rank, report in enumerate(reports) if report.why == "killed"]
    was, it = ("was", "it") if len(killed) == 1 else ("were", "them")
    who = ranks_text(killed).capitalize() if killed else ""
    lost = f" {who} {was} killed by the plan; the others finished without {it}." if killed else ""
    ranks = "1 rank" if len(reports) == 1 else f"{len(reports)} ranks"
    return f"{ranks} finished after {trace.end_ns / 1e6:,.3f} virtual ms.{lost}"


def tape(trace: Trace) -> str:
    """The last operations of every rank, one line for each of its threads."""
    lines = []
    for rank in range(trace.world_size):
        events = [e for e in trace.of_rank(rank) if e.op not in ("compute", "step")]
        for thread in sorted({e.thread for e in events}):
            name = f"rank {rank}" if thread == MAIN_THREAD else f"rank {rank}, thread {thread}"
            lines.append(f"  {name}: {_tail([e for e in events if e.thread == thread])}")
    return "\n".join(lines)


def _tail(events: list[Event]) -> str:
    shown = events[-_TAPE_LENGTH:]
    return ("... " if len(events) > len(shown) else "") + " -> ".join(_mark(e) for e in shown)


def _stacks(errors: Sequence[dict[str, Any] | None]) -> str:
    """The Python frames in which ranks were blocked or failed, innermost first; ranks in one place share a line."""
    places: dict[str, list[int]] = {}
    for rank, error in enumerate(errors):
        if error and error["frames"]:
            frames = [f"{frame['function']} ({frame['file']}:{frame['line']})" for frame in error["frames"][::-1]]
            places.setdefault(" < ".join(frames), []).append(rank)
    return "\n".join(f"  {ranks_text(ranks)} in {place}" for place, ranks in places.items())


def _mark(event: Event) -> str:
    if event.op == "exit":
        told = {"done": "finished", "error": "raised", "crashed": "died", "spinning": "spins", "hung": "hangs"}
        return told.get(event.status, event.status)
    if not event.is_communication:
        return event.op
    return event.label + ("" if event.status == "ok" else f" [{event.status}]")
