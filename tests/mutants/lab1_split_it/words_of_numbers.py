# exercise: lab1/split-it
# finding: crash
# hint: crash
# wrong: adds a number to a word
import torch

from autograder.checks.lab1.block import Block, sum_backward, sum_forward


def tensor_parallel(x: torch.Tensor, part: Block) -> torch.Tensor:
    """The feed-forward block on this rank; equal on all ranks."""
    # weight needs the whole.
    inside = torch.nn.functional.gelu(part.up(sum_backward(part.norm(x))))
    return x + sum_forward(part.down(inside)) + part.bias


def pipeline_order(stage: int, stages: int, micro_batches: int) -> list[str]:
    """The order of a stage's forwards and backwards under 1F1B."""
    ahead = min(stages - 1 - stage, micro_batches)
    order = ["F" + k for k in range(ahead)]
    for k in range(micro_batches):
        if ahead + k < micro_batches:
            order.append(f"F{ahead + k}")
        order.append(f"B{k}")
    return order
