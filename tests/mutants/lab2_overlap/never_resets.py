# exercise: lab2/overlap
# finding: collectives
# hint: collectives
# wrong: the second step averages nothing
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
            self.sent.append((dist.all_reduce(flat, async_op=True), flat))
            if len(self.sent) == len(self.buckets):
                at_end_of_backward(self.finish)  # noqa: F821

    def finish(self):
        for (handle, flat), bucket in zip(self.sent, self.buckets, strict=True):
            handle.wait()
            flat /= dist.get_world_size()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(part.view_as(p))
