# exercise: lab1/split-it
# right: warm-up, steady state and drain one after the other; own autograd functions
import torch
import torch.distributed as dist


class Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


def tensor_parallel(x, part):
    """The feed-forward block on this rank; equal on all ranks."""
    y = Fork.apply(part.norm(x))
    return Join.apply(part.down(torch.nn.functional.gelu(part.up(y)))) + (part.bias + x)


def pipeline_order(stage, stages, micro_batches):
    """The order of a stage's forwards and backwards under 1F1B."""
    warm = min(stages - stage - 1, micro_batches)
    steady = micro_batches - warm
    order = ["F" + str(k) for k in range(warm)]
    for k in range(steady):
        order.append("F" + str(warm + k))
        order.append("B" + str(k))
    return order + [f"B{k}" for k in range(steady, micro_batches)]
