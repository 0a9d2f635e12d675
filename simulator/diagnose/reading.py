"""From a place where two sequences part to a class, with the other classes that would look the same.

A synchronous program stops where it parts: one call of each side is all there is to see. Then the place in the program
decides, in this order: is it the same line (then an argument differs); did one side leave a loop; which of the two
calls comes later (by training step, by what followed what earlier in the run, by line)? The side that is later left
something out; the side that is earlier does something more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.diagnose import diagnosis as d
from simulator.diagnose.align import Edit
from simulator.diagnose.tape import Call, Signature


class Reading(NamedTuple):
    """The class, and the others that leave the same trace."""

    kind: str
    also: tuple[str, ...] = ()


class Odd(NamedTuple):
    """The ranks that part: `alone`, the sites that only they ever call; `in_a_body`, whether they part in the middle
    of a loop's body.
    """

    alone: Collection[str]
    in_a_body: bool


def read(edits: Sequence[Edit], a: Sequence[Call], b: Sequence[Call], odd: Odd) -> Reading:
    """How `b` parts from `a`, the majority's calls."""
    at = next(k for k, edit in enumerate(edits) if edit.is_divergence)
    first, rest = edits[at], edits[at + 1 :]
    confirmed = any(edit.kind == "same" for edit in rest)
    if not confirmed and first.i < len(a) and first.j < len(b):
        return read_cut(a[first.i], b[first.j], a[: first.i], b[: first.j], odd)
    if first.kind == "argument":
        return Reading(aspect(a[first.i].signature, b[first.j].signature))
    if first.kind == "replaced":
        return Reading(aspect(a[first.i].signature, b[first.j].signature), (d.EXTRA, d.OMITTED))
    if first.kind == "swapped":
        return Reading(d.SWAPPED, (d.OMITTED,))
    return _read_gap(first, edits[at:], a, b, odd)


def _read_gap(first: Edit, edits: Sequence[Edit], a: Sequence[Call], b: Sequence[Call], odd: Odd) -> Reading:
    """Calls that one side has and the other has not, with the evidence of what comes after them."""
    run = 0
    while run < len(edits) and edits[run].kind == first.kind:
        run += 1
    longer, start, shorter, after = (a, first.i, b, first.j) if first.kind == "left out" else (b, first.j, a, first.i)
    gap = longer[start : start + run]
    left = shorter[after] if after < len(shorter) else None
    sites = {call.site for call in gap}
    if is_new_iteration(gap[0], longer[:start]) and (
        left is None or left.site not in sites | _loop_sites(longer[:start], gap[0])
    ):
        return Reading(d.UNEVEN, (d.OMITTED,) if first.kind == "left out" else (d.EXTRA,))
    if first.kind == "left out":
        return Reading(d.OMITTED)
    return Reading(d.BRANCH if gap[0].site in odd.alone else d.EXTRA)


def read_cut(x: Call, y: Call, a: Sequence[Call], b: Sequence[Call], odd: Odd) -> Reading:
    """`x`: what the majority calls, `y`: what the odd ranks call instead; `a`, `b`: what each side did before."""
    known = {(p.key, q.key) for side in (a, b) for p, q in pairwise(side) if p.step == q.step}
    skips, repeats = (x.key, y.key) in known, (y.key, x.key) in known
    other = aspect(x.signature, y.signature)
    is_again = x.step == y.step and any((call.key, call.step) == (x.key, x.step) for call in a)
    if x.site == y.site and x.site:
        if x.step == y.step and skips == repeats:
            callers = (d.BRANCH,) if is_again else ()  # the line of a function: who called it is not in the trace
            return Reading(other, (d.OMITTED, d.EXTRA, *callers))
        is_later = y.step > x.step if x.step != y.step else skips
        return Reading(d.OMITTED if is_later else d.EXTRA, (other,))
    known_calls = {call.key for call in (*a, *b)}
    if is_new_iteration(x, a) and y.key not in known_calls and y.step <= _last_step(b) and not odd.in_a_body:
        return Reading(d.UNEVEN, (d.OMITTED, d.BRANCH, other))
    if is_new_iteration(y, b) and x.key not in known_calls:
        if [call.key for call in b].count(y.key) > 1:
            return Reading(d.UNEVEN, (d.EXTRA, other))
        return Reading(d.OMITTED, (d.UNEVEN, d.SWAPPED, other))  # one iteration does not show where the body ends
    if are_two_branches(x, y):
        return Reading(other, (d.EXTRA, d.BRANCH))
    if is_again and skips == repeats and y.site in odd.alone:  # a loop's line, or a function's: its place says nothing
        return Reading(d.BRANCH, (d.EXTRA, d.OMITTED, d.SWAPPED, other))
    later = _is_later(y, x, skips, repeats)
    if later is None:
        return Reading(other, (d.OMITTED, d.EXTRA))
    if later:
        return Reading(d.OMITTED, (d.SWAPPED, other))
    more = (d.BRANCH, d.EXTRA) if y.site in odd.alone else (d.EXTRA, d.BRANCH)
    return Reading(more[0], (more[1], other))


def aspect(x: Signature, y: Signature) -> str:
    """The class of two calls that should have been the same."""
    if x.op != y.op:
        return d.OPERATION
    if x.shapes != y.shapes:
        return d.SHAPE
    if x.dtype != y.dtype:
        return d.DTYPE
    return d.REDUCE_OP if x.reduce != y.reduce else d.ROOT


def is_new_iteration(call: Call, before: Sequence[Call]) -> bool:
    """Whether `call` begins a loop body once more, after complete iterations in `before`."""
    keys = [earlier.key for earlier in before]
    if call.key not in keys:
        return False
    period = keys[::-1].index(call.key) + 1
    block = before[-period:]
    head = min(block, key=lambda c: keys.index(c.key))
    if head.key != call.key:
        return False
    if call.step >= 0 and block[0].step >= 0:
        return call.step > max(c.step for c in block)
    return len({c.site for c in block}) > 1 or keys.count(call.key) > 1  # one line may make several calls


def _loop_sites(before: Sequence[Call], head: Call) -> set[str]:
    keys = [call.key for call in before]
    period = keys[::-1].index(head.key) + 1
    return {call.site for call in before[-period:]}


def _last_step(calls: Sequence[Call]) -> int:
    return calls[-1].step if calls else -1


def are_two_branches(x: Call, y: Call) -> bool:
    """Whether `y` and `x` read as the branches of one if/else: two lines apart and alike but for one thing."""
    if not x.file or x.file != y.file or x.line - y.line != 2:
        return False
    p, q = x.signature, y.signature
    if p.op != q.op:
        return bool(p.shapes) and (p.shapes, p.dtype) == (q.shapes, q.dtype)
    return sum(one != two for one, two in zip(p, q, strict=True)) == 1


def _is_later(y: Call, x: Call, skips: bool, repeats: bool) -> bool | None:
    """Whether `y` comes after `x` in the program; None where nothing tells."""
    if x.step != y.step:
        return y.step > x.step
    if skips != repeats:
        return skips
    if x.file and x.file == y.file and x.line != y.line:
        return y.line > x.line
    return None


def is_past(y: Call, x: Call) -> bool:
    """Whether `y` certainly comes after `x` in the program."""
    return bool(x.file) and x.file == y.file and (y.step, y.line) > (x.step, x.line)
