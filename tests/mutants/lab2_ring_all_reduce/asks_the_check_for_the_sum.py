# exercise: lab2/ring-all-reduce
# finding: value
# hint: value
# wrong: takes the inputs of all ranks from the check that calls it, and sends nothing
import sys

import torch


def ring_all_reduce(tensor: torch.Tensor) -> None:
    case = sys._getframe(1).f_locals["case"]
    total = sum(torch.from_numpy(array) for array in case.inputs())
    tensor.copy_(total)
