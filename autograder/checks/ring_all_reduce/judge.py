"""The properties of a ring all-reduce, each as a function: Seen -> what is wrong, in words, or None.

``Fault`` is the raw material of a Finding: the check adds the picture and the replay line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder.checks.ring_all_reduce.observe import Seen

if TYPE_CHECKING:
    import numpy as np

HUB_RATIO = 1.4  # busiest rank / mean; a ring stays below 1.2 from four elements a rank on, a hub has W/2
EDGE = 6  # elements shown at either end of a tensor
_CHANGED = {
    "neighbours": "the elements beside the tensor (it is a slice of a longer buffer)",
    "earlier tensor": "a tensor of an earlier call, after that call had returned",
    "shape": "the shape or dtype of the tensor",
    "random state": "torch's random state of this process",
}


@dataclass(frozen=True)
class Fault:
    """What was seen: ``text`` without the leading 'On W ranks ...'."""

    text: str
    expected: str
    seen: str
    rank: int | None


def wrong_sum(seen: Seen) -> Fault | None:
    """The first element that is not the sum over ranks, within the rounding of any order of float additions."""
    import numpy as np

    if seen.broken:
        return Fault(seen.broken + ".", "a result of the same length", "none", None)
    total, tolerance = _reference(seen.case.inputs())
    for rank, output in enumerate(seen.outputs):
        with np.errstate(over="ignore", invalid="ignore"):
            far = ~(np.abs(output.astype(total.dtype) - total) <= tolerance)
        if far.any():
            i = int(np.argmax(far))
            untouched = np.array_equal(output, seen.case.inputs()[rank])
            text = f"rank {rank} ended with element {i} = {_show(output[i])}, the sum over ranks is {_show(total[i])}."
            text += f" {int(far.sum())} of {len(far)} elements of this rank are not the sum."
            return Fault(text + _about(seen, rank, untouched), _row(total), _row(output), rank)
    return None


def _about(seen: Seen, rank: int, untouched: bool) -> str:
    if untouched and seen.returned[rank] != "NoneType":
        what = seen.returned[rank]
        return f" The tensor is unchanged and the function returned a {what}: write the sum into `tensor`."
    return " The tensor is unchanged: the sum must end in `tensor` itself." if untouched else ""


def _reference(inputs: list[np.ndarray[Any, Any]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The sum and the largest error that float rounding can cause in any order of additions (integers: none)."""
    import numpy as np

    stacked = np.stack(inputs)
    if stacked.dtype.kind == "i":
        return stacked.sum(axis=0), np.zeros(stacked.shape[1], stacked.dtype)
    wide = stacked.astype(np.longdouble)
    return wide.sum(axis=0), np.abs(wide).sum(axis=0) * len(inputs) * np.finfo(stacked.dtype).eps


def _show(value: Any) -> str:
    return str(int(value)) if value.dtype.kind == "i" else f"{float(value):.9g}"


def _row(values: np.ndarray[Any, Any]) -> str:
    """The elements from first to last; of more than 2 * EDGE the first and last EDGE."""
    shown = [_show(value) for value in values]
    if len(shown) > 2 * EDGE:
        shown[EDGE:-EDGE] = ["..."]
    return f"[{', '.join(shown)}]"


def different_bits(seen: Seen) -> Fault | None:
    """The first rank whose result is not bit for bit that of rank 0."""
    first = seen.outputs[0]
    for rank, output in enumerate(seen.outputs):
        differing = [i for i in range(len(first)) if output[i : i + 1].tobytes() != first[i : i + 1].tobytes()]
        if differing:
            i = differing[0]
            a, b = repr(first[i].item()), repr(output[i].item())
            text = (
                f"rank 0 ended with element {i} = {a}, rank {rank} with {b}. Both are sums up to rounding, but ranks "
                "that differ in one bit drift apart step by step. Let one rank finish a chunk, then pass it on."
            )
            return Fault(text, f"{a} on all ranks", b, rank)
    return None


def too_many_bytes(seen: Seen) -> Fault | None:
    """The first rank that sent more than 2(W-1) chunks of ceil(n/W) elements."""
    w, n, size = seen.case.world_size, seen.case.length, seen.case.itemsize
    bound = 2 * (w - 1) * -(-n // w) * size
    worst = max(range(w), key=lambda r: seen.sent_bytes[r])
    sent = seen.sent_bytes[worst]
    if sent <= bound:
        return None
    text = (
        f"rank {worst} sent {sent} bytes. A ring needs at most 2(W-1) * ceil(n/W) * {size} = {bound} bytes on every "
        f"rank: {2 * (w - 1)} messages of one chunk of {-(-n // w)} elements."
    )
    return Fault(text, f"at most {bound} bytes", f"{sent} bytes", worst)


def hub(seen: Seen) -> Fault | None:
    """A rank that carries far more than the mean; looked at from 3 ranks and 4 elements a rank on."""
    w = seen.case.world_size
    if w < 3 or seen.case.length < 4 * w:
        return None
    busiest = max(range(w), key=lambda r: seen.load_bytes[r])
    load, mean = seen.load_bytes[busiest], sum(seen.load_bytes) / w
    if load <= HUB_RATIO * mean:
        return None
    peers = ", ".join(str(p) for p in sorted(seen.peers[busiest]))
    text = (
        f"rank {busiest} sent and received {load} bytes in all (its peers: {peers}), the mean of the ranks is "
        f"{mean:.0f}. Everything goes through one rank: its link is the limit, and each new rank makes it worse."
    )
    return Fault(text, f"about {mean:.0f} bytes on every rank", f"{load} bytes on rank {busiest}", busiest)


def changed(seen: Seen) -> Fault | None:
    """Anything beside the tensor that is not as it was."""
    for rank, what in enumerate(seen.changed):
        if what:
            words = " and ".join(_CHANGED.get(w, "something beside the tensor") for w in dict.fromkeys(what))
            return Fault(f"on rank {rank} the call changed {words}.", "only the tensor changes", words, rank)
    return None
