# exercise: lab1/split-it
# right: plain matrix products; the order from two counters
import torch

from autograder.checks.lab1.block import sum_backward, sum_forward


def tensor_parallel(x, part):
    """The feed-forward block on this rank; equal on all ranks."""
    normed = sum_backward(part.norm(x))
    outs = sum_forward(torch.nn.functional.gelu(normed @ part.up.weight.T) @ part.down.weight.T)
    return outs + part.bias + x


def pipeline_order(stage, stages, micro_batches):
    """The order of a stage's forwards and backwards under 1F1B."""
    order, forwards, backwards = [], 0, 0
    while backwards < micro_batches:
        if forwards < micro_batches and forwards - backwards < stages - stage:
            order.append(f"F{forwards}")
            forwards += 1
        else:
            order.append(f"B{backwards}")
            backwards += 1
    return tuple(order)
