# exercise: lab1/memory-ledger
# finding: remainder
# hint: remainder
# wrong: drops the elements that are left over
import math

from autograder.checks.lab1.conventions import Convention


def ledger(shapes: list[tuple[int, ...]], zero: int, ranks: int, rank: int, convention: Convention) -> dict[str, int]:
    """Bytes that `rank` holds between two steps, by kind."""
    whole = sum(math.prod(shape) for shape in shapes)
    piece = whole // ranks
    if zero == 3:
        piece = 0
        for rows, *rest in shapes:
            most = math.ceil(rows / ranks)
            piece += max(0, min(most, rows - rank * most)) * math.prod(rest)
    return {
        "parameters": (piece if zero >= 3 else whole) * convention.weights,
        "gradients": (piece if zero >= 2 else whole) * convention.gradients,
        "optimizer": (piece if zero >= 1 else whole) * (convention.master + convention.moments),
    }
