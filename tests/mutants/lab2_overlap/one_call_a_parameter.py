# exercise: lab2/overlap
# finding: collectives
# hint: collectives
# wrong: reduces every gradient for itself
import torch
import torch.distributed as dist


class Overlapped(torch.nn.Module):
    """A module whose gradients are averaged bucket by bucket while backward is still at work."""

    def __init__(self, module: torch.nn.Module, plan: list[list[str]]) -> None:
        super().__init__()
        self.module = module
        parameters = dict(module.named_parameters())
        self.buckets = [[parameters[name] for name in names] for names in plan]
        self.sent = []  # (handle, flat tensor) of the buckets that are on their way, in launch order
        self.missing = [len(bucket) for bucket in self.buckets]
        for k, bucket in enumerate(self.buckets):
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda p, k=k: self.ready(k))

    def forward(self, *inputs):
        return self.module(*inputs)

    def ready(self, k):
        self.missing[k] -= 1
        while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
            flat = torch.cat([p.grad.flatten() for p in self.buckets[len(self.sent)]])
            handles = [dist.all_reduce(p.grad, async_op=True) for p in self.buckets[len(self.sent)]]
            self.sent.append((handles, flat))
            if len(self.sent) == len(self.buckets):
                at_end_of_backward(self.finish)  # noqa: F821

    def finish(self):
        for (handle, _), bucket in zip(self.sent, self.buckets, strict=True):
            for each in handle:
                each.wait()
            for p in bucket:
                p.grad /= dist.get_world_size()
        self.sent, self.missing = [], [len(bucket) for bucket in self.buckets]
