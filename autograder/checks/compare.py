"""Comparing values in the trusted process: numpy arrays made from bytes, and plain numbers. Nothing of the student."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autograder.checks.seen import Fault

if TYPE_CHECKING:
    import numpy as np

EDGE = 6  # elements shown at either end


def sum_of(inputs: list[np.ndarray[Any, Any]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The sum and the largest error that float rounding can cause in any order of additions (integers: none).

    The bound is (n - 1) u sum|x| to first order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd
    ed., section 4.2), here with n and eps = 2 u for slack.
    """
    import numpy as np

    stacked = np.stack(inputs)
    if stacked.dtype.kind == "i":
        return stacked.sum(axis=0), np.zeros(stacked.shape[1:], stacked.dtype)
    wide = stacked.astype(np.longdouble)
    return wide.sum(axis=0), np.abs(wide).sum(axis=0) * len(inputs) * np.finfo(stacked.dtype).eps


def far(output: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: Any = 0) -> list[int]:
    """Flat indices of the elements that differ from ``expected`` by more than ``tolerance``; NaN differs, too."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        wrong = ~(np.abs(output.astype(expected.dtype) - expected) <= tolerance)
    return [int(i) for i in np.flatnonzero(wrong)]


def wrong_array(
    what: str, rank: int, output: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: Any = 0
) -> Fault | None:
    """The first element of rank ``rank``'s ``what`` ("element 3 of the gradient") that is not as expected.

    Args:
        what: the name of the array, with its article.
        tolerance: a number, or an array of the same shape.
    """
    if output.shape != expected.shape:
        text = f"rank {rank}: {what} has the shape {output.shape}, expected {expected.shape}."
        return Fault(text, f"shape {expected.shape}", f"shape {output.shape}", rank)
    wrong = far(output, expected, tolerance)
    if not wrong:
        return None
    i = wrong[0]
    text = f"rank {rank}: element {i} of {what} is {show(output.flat[i])}, expected {show(expected.flat[i])}."
    if len(wrong) > 1:
        text += f" {len(wrong)} of {expected.size} elements are wrong."
    return Fault(text, row(expected), row(output), rank)


_TOLD = 0.0005  # smaller margins are for rounding and nothing that anybody aims at


def wrong_number(what: str, rank: int | None, seen: float, expected: float, relative: float = 0.0) -> Fault | None:
    """Whether the number ``what`` is not ``expected`` within ``relative`` (a share of the expected value)."""
    if abs(seen - expected) <= relative * abs(expected):
        return None
    who = "" if rank is None else f"rank {rank}: "
    margin = f" (within {relative:.1%})" if relative >= _TOLD else ""
    text = f"{who}{what} is {seen:.9g}, expected {expected:.9g}{margin}."
    return Fault(text, f"{expected:.9g}{margin}", f"{seen:.9g}", rank)


def different_bits(what: str, outputs: list[np.ndarray[Any, Any]]) -> Fault | None:
    """The first rank whose array is not bit for bit that of rank 0."""
    first = outputs[0].ravel()
    for rank, other in enumerate(outputs):
        output = other.ravel()
        if len(output) == len(first) and output.tobytes() == first.tobytes():
            continue
        if len(output) != len(first):
            return Fault(f"{what}: rank 0 has {len(first)} elements, rank {rank} {len(output)}.", rank=rank)
        i = next(i for i in range(len(first)) if output[i : i + 1].tobytes() != first[i : i + 1].tobytes())
        a, b = repr(first[i].item()), repr(output[i].item())
        return Fault(f"{what}: rank 0 has element {i} = {a}, rank {rank} has {b}.", f"{a} on all ranks", b, rank)
    return None


def show(value: Any) -> str:
    """One element: integers whole, floats with nine digits."""
    return str(int(value)) if value.dtype.kind in "iub" else f"{float(value):.9g}"


def row(values: np.ndarray[Any, Any]) -> str:
    """The elements from first to last; of more than 2 * EDGE the first and last EDGE."""
    flat = values.ravel()
    shown = [show(value) for value in (flat if len(flat) <= 2 * EDGE else [*flat[:EDGE], *flat[-EDGE:]])]
    if len(flat) > 2 * EDGE:
        shown[EDGE:EDGE] = ["..."]
    return f"[{', '.join(shown)}]"
