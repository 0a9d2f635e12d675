# exercise: lab2/bucketed-ddp
# finding: gradient
# hint: gradient
# wrong: each rank cuts its own order
import torch
import torch.distributed as dist


class Bucketed(torch.nn.Module):
    """A module whose gradients are averaged as by torch's DistributedDataParallel, bit for bit."""

    def __init__(self, module: torch.nn.Module, cap_bytes: int, find_unused: bool = False) -> None:
        super().__init__()
        self.module, self.cap_bytes, self.find_unused = module, cap_bytes, find_unused
        self.trained = [p for p in module.parameters() if p.requires_grad]
        numbers = range(len(self.trained))
        self.buckets = self.cut(numbers)[::-1] if find_unused else [list(numbers)]
        self.is_rebuilt = find_unused
        self.begin_step()
        for i, p in enumerate(self.trained):
            p.register_post_accumulate_grad_hook(lambda p, i=i: self.ready(i))

    def forward(self, *inputs):
        return self.module(*inputs)

    def cut(self, order):
        buckets, size = [[]], 0
        for i in order:
            if size >= self.cap_bytes:
                buckets, size = [*buckets, []], 0
            buckets[-1].append(i)
            size += self.trained[i].numel() * self.trained[i].element_size()
        return buckets

    def begin_step(self):
        self.order, self.sent = [], []
        self.missing = [set(bucket) for bucket in self.buckets]

    def ready(self, i):
        if not self.order:
            at_end_of_backward(self.finish)  # noqa: F821
        self.order.append(i)
        for missing in self.missing:
            missing.discard(i)
        self.launch()

    def launch(self):
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            bucket = [self.trained[i] for i in self.buckets[len(self.sent)]]
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
            flat *= 1 / dist.get_world_size()
            self.sent.append((dist.all_reduce(flat, async_op=True), flat))

    def finish(self):
        used = torch.zeros(len(self.trained), dtype=torch.int32)
        used[self.order] = 1
        if self.find_unused:
            self.missing = [set() for _ in self.buckets]
            self.launch()
            dist.all_reduce(used)
        for (handle, flat), bucket in zip(self.sent, self.buckets, strict=True):
            handle.wait()
            sizes = [self.trained[i].numel() for i in bucket]
            for i, part in zip(bucket, flat.split(sizes), strict=True):
                if used[i]:
                    self.trained[i].grad = part.view_as(self.trained[i]).clone()
        if not self.is_rebuilt:
            order = torch.tensor(self.order)
            self.buckets, self.is_rebuilt = self.cut(order.tolist()), True
        self.begin_step()
