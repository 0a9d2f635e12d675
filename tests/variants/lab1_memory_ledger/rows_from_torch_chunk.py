# exercise: lab1/memory-ledger
# right: counts the rows that torch.chunk gives
import math

import torch


def ledger(shapes, zero, ranks, rank, convention):
    """Bytes that `rank` holds between two steps, by kind."""
    whole = sum(math.prod(shape) for shape in shapes)
    mine = 0
    for shape in shapes:
        pieces = torch.arange(shape[0]).chunk(ranks)
        rows = len(pieces[rank]) if rank < len(pieces) else 0
        mine += rows * math.prod(shape[1:])
    flat = (whole + ranks - 1) // ranks
    elements = {0: (whole, whole, whole), 1: (whole, whole, flat), 2: (whole, flat, flat), 3: (mine, mine, mine)}[zero]
    names = ("parameters", "gradients", "optimizer")
    bytes_each = (convention.weights, convention.gradients, convention.master + convention.moments)
    return {name: n * b for name, n, b in zip(names, elements, bytes_each, strict=True)}
