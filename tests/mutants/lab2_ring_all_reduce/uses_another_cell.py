# exercise: lab2/ring-all-reduce
# finding: name-only-in-kernel
# hint: name-only-in-kernel
# wrong: calls a function that another cell of the notebook defines, so a check does not have it
import torch


def ring_all_reduce(tensor: torch.Tensor) -> None:
    hub_all_reduce(tensor)  # noqa: F821 - that it is not defined here is the point
