"""`diagnose`: from a trace to the first thing that went wrong."""

from __future__ import annotations

from simulator.diagnose import diagnosis as d
from simulator.diagnose import words
from simulator.diagnose.diagnosis import Diagnosis
from simulator.diagnose.divergence import divergences
from simulator.diagnose.finding import Finding
from simulator.diagnose.loss import dead_ranks, missed_rendezvous, missing_ranks
from simulator.diagnose.names import misnamed_group
from simulator.diagnose.network import cut_network
from simulator.diagnose.quiet import crossed_calls, slow_rank, unmet_messages
from simulator.diagnose.tape import Tapes
from simulator.diagnose.waits import (
    deadlock,
    late_ranks,
    on_another_group,
    unequal_message,
    unequal_parts,
    unexplained,
)
from simulator.trace import Trace


def diagnose(trace: Trace) -> Diagnosis:
    """Say what went wrong first in a run: class, group, sequence number, culprits, call site, and what to do.

    It reads the events only, so a trace recorded elsewhere will do, also without one of its ranks. After restarts it
    reads the last incarnation. It looks at the order of calls, not at values: two equal collectives that were swapped
    are at best suspected.
    """
    tapes = Tapes(trace.incarnation(-1))
    found = _find(tapes)
    if found is None:
        unmet = unmet_messages(tapes)
        text, advice = (words.unmet(unmet), words.UNMET_ADVICE) if unmet else (words.HEALTHY, "")
        return Diagnosis(kind=d.NONE, text=text, advice=advice)
    call = found.culprit_call
    return Diagnosis(
        kind=found.kind,
        ranks=found.ranks,
        also=tuple(dict.fromkeys(name for name in found.also if name != found.kind)),
        group=found.group,
        seq=found.seq,
        step=call.step if call else -1,
        site=call.site if call else "",
        text=words.text(found),
        advice=words.advice(found),
    )


def _find(tapes: Tapes) -> Finding | None:
    if found := dead_ranks(tapes) or missed_rendezvous(tapes) or misnamed_group(tapes) or cut_network(tapes):
        return found
    candidates = [*divergences(tapes), *filter(None, [unequal_message(tapes)])]
    if candidates:
        return on_another_group(tapes, min(candidates, key=lambda f: (f.at_ns, f.group, f.seq)))
    if found := deadlock(tapes):
        return on_another_group(tapes, found) if found.kind in (d.OMITTED, d.EXTRA, d.BRANCH) else found
    found = late_ranks(tapes) or missing_ranks(tapes) or unequal_parts(tapes) or unexplained(tapes)
    return found or crossed_calls(tapes) or slow_rank(tapes)
