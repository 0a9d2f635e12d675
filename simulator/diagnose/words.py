"""A finding in plain words: what happened, on which rank and line, what else it could be, what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding, ranks_text
from simulator.diagnose.tape import call_of
from simulator.trace import Event

ADVICE = {
    d.OMITTED: "Look for the condition that keeps a rank from this call; every rank has to make it.",
    d.EXTRA: "Look for what makes this rank call it once more, or let every rank do so.",
    d.BRANCH: "Move the call out of the branch: let every rank call it, and only use the result on one.",
    d.UNEVEN: "Give every rank the same number of iterations: drop or pad the last batch, or use Join.",
    d.SWAPPED: "Look at the values; if they are mixed up, make every rank call the two in the same order.",
    d.SHAPE: "Print the shape on every rank before the call; pad, or tell each other the sizes first.",
    d.DTYPE: "Convert to one dtype on every rank before the call.",
    d.OPERATION: "Let every rank call the same operation here.",
    d.REDUCE_OP: "Pass the same `op=` on every rank.",
    d.ROOT: "Pass the same src or dst on every rank: a constant, not this rank's own number.",
    d.GROUP: "Check which `group=` each rank passes, and that every rank calls `new_group` for every group.",
    d.DEAD: "Look at this rank first: its own output and the end of its log; the others only waited for it.",
    d.SLOW: "Profile this rank: data loading, logging, garbage collection, a slower device.",
    d.DEADLOCK_GROUPS: "Let every rank use the groups in one order, for example by group size, then by name.",
    d.DEADLOCK_P2P: "Let one side send while the other receives, or start with isend / batch_isend_irecv.",
    d.NETWORK: "Look at the network between these ranks, and at what the timeout lets it recover from.",
}
HEALTHY = "Every rank made the same calls in the same order, as far as the trace shows; no rank is slow or gone."
UNMET_ADVICE = "Give each send its recv, and wait for the work of each isend and irecv before the end."


def text(found: Finding) -> str:
    """The paragraph."""
    parts = [_what(found), _who(found), _other_readings(found), advice(found)]
    return " ".join(filter(None, parts))


def advice(found: Finding) -> str:
    """What to do next: the case's own advice, else its class's."""
    return found.advice or ADVICE[found.kind]


def unmet(events: Collection[Event]) -> str:
    """Nothing went wrong but this: messages whose other end never came, and that nobody waited for."""
    what = "1 message" if len(events) == 1 else f"{len(events)} messages"
    never = " or ".join(sorted({"received" if event.op == "send" else "sent" for event in events}))
    calls = {(event.rank, event.label, event.site): event for event in events}
    return f"No rank is stuck, slow or gone, but {what} {'was' if len(events) == 1 else 'were'} never {never}: " + (
        f"{_calls(calls.values())}. {UNMET_ADVICE}"
    )


def _what(found: Finding) -> str:
    who, where, said = ranks_text(found.ranks).capitalize(), _where(found), _calls(found.calls)
    plural = len(found.ranks) > 1
    if found.what:
        return f"{found.what}{where}: {said}."
    match found.kind:
        case d.OMITTED | d.EXTRA | d.BRANCH if found.is_tie and plural:
            return f"{who} do not make the same calls{where}: {said}."
        case d.OMITTED:
            return f"{who} left out a call that the others make{where}: {said}."
        case d.EXTRA:
            return f"{who} make{'' if plural else 's'} a call more than the others{where}: {said}."
        case d.BRANCH:
            return f"Only {ranks_text(found.ranks)} come{'' if plural else 's'} to this call{where}: {said}."
        case d.UNEVEN:
            return f"A loop ends earlier on some ranks than on others{where}: {said}. {_odd(found)}"
        case d.SWAPPED:
            return f"Suspicion: {ranks_text(found.ranks)} may have swapped two calls{where}: {said}."
        case d.GROUP if not any(e.is_communication for e in found.calls):
            waiting = ranks_text(e.rank for e in found.calls).capitalize()
            wait = "waits" if len(found.calls) == 1 else "wait"
            return f"{waiting} {wait} for a new group that {ranks_text(found.ranks)} never came to: {said}."
        case d.GROUP:
            return f"{who} called on another process group than the others{where}: {said}."
        case d.DEAD:
            waits = f"; waiting: {said}" if said else ""
            return f"{found.why[:1].upper()}{found.why[1:]}{waits}."
        case d.SLOW:
            verb = "take" if plural else "takes"
            return f"{who} {verb} {found.why} for own work as the others, round after round, and they wait."
        case d.DEADLOCK_GROUPS:
            places = "different groups" if all(e.is_collective for e in found.calls) else "a group and in messages"
            return f"The ranks wait for each other in {places}: {said}. {_odd(found)}"
        case d.NETWORK:
            return f"{who} made the same call{where}, and it never completed: {said}. No program is to blame."
        case d.DEADLOCK_P2P:
            tags = f" ({found.why})" if found.why else ""
            return f"{who} wait for each other: {said}{tags}."
    return f"{who} differ{'' if plural else 's'} in {_ASPECT[found.kind]}{where}: {said}."


_ASPECT = {
    d.SHAPE: "shape",
    d.DTYPE: "dtype",
    d.OPERATION: "operation",
    d.REDUCE_OP: "reduce op",
    d.ROOT: "source or destination",
}


def _odd(found: Finding) -> str:
    """A sentence that names the culprits where the calls alone do not."""
    who = ranks_text(found.ranks).capitalize()
    if found.is_tie:
        return f"{who} {'are' if len(found.ranks) > 1 else 'is'} involved."
    return f"{who} {'are the odd ones' if len(found.ranks) > 1 else 'is the odd one'} out."


def _who(found: Finding) -> str:
    if not found.is_tie or len(found.ranks) < 2:
        return ""
    hint = f"{found.why[:1].upper()}{found.why[1:]}; but there" if found.why and found.group else "There"
    return f"{hint} is no majority, so every rank that is involved is named."


def _other_readings(found: Finding) -> str:
    if found.kind == d.SWAPPED and not found.also:
        return "A legal program can look the same."
    return f"The same trace could also come from: {', '.join(found.also)}." if found.also else ""


def _where(found: Finding) -> str:
    step = next((e.step for e in found.calls if e.step >= 0), -1)
    words = []
    if found.seq >= 0:
        words.append(f"at collective #{found.seq}")
    if found.group not in ("", "default"):
        words.append(f"of group {found.group}")
    if step >= 0:
        words.append(f"in step {step}")
    return " " + " ".join(words) if words else ""


def _calls(calls: Iterable[Event]) -> str:
    said: dict[str, list[int]] = {}
    for event in calls:
        said.setdefault(_call(event), []).append(event.rank)
    return "; ".join(f"{ranks_text(ranks)}: {call}" for call, ranks in said.items())


def _call(event: Event) -> str:
    site = f" at {event.site}" if event.site else ""
    if event.op == "rendezvous":
        return f"new_group or init_process_group{site}"
    if event.is_p2p:
        return f"{event.label}{site}"
    signature = call_of(event).signature
    shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in event.shapes)
    words = [
        signature.reduce,
        f"{event.dtype}[{shapes}]" if event.dtype else "",
        f"root {event.peer}" if event.peer >= 0 else "",
        f"group {event.group}" if event.group not in ("", "default") else "",
    ]
    return f"{event.op}({', '.join(filter(None, words))}){site}"
