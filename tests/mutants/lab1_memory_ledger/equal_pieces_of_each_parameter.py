# exercise: lab1/memory-ledger
# finding: remainder
# hint: remainder
# wrong: gives every rank the largest piece
import math

from autograder.checks.lab1.conventions import Convention


def ledger(shapes: list[tuple[int, ...]], zero: int, ranks: int, rank: int, convention: Convention) -> dict[str, int]:
    """Bytes that `rank` holds between two steps, by kind."""
    whole = sum(math.prod(shape) for shape in shapes)
    piece = math.ceil(whole / ranks)
    if zero == 3:
        piece = 0
        for rows, *rest in shapes:
            most = math.ceil(rows / ranks)
            piece += most * math.prod(rest)
    return {
        "parameters": (piece if zero >= 3 else whole) * convention.weights,
        "gradients": (piece if zero >= 2 else whole) * convention.gradients,
        "optimizer": (piece if zero >= 1 else whole) * (convention.master + convention.moments),
    }
