# exercise: lab2/bucketed-ddp
# right: counters; gradients are scaled into a preallocated buffer, and p.grad is a view of it
import torch
import torch.distributed as dist


class Bucketed(torch.nn.Module):
    """A module whose gradients are averaged as by torch's DistributedDataParallel, bit for bit."""

    def __init__(self, module: torch.nn.Module, cap_bytes: int, find_unused: bool = False) -> None:
        super().__init__()
        self.module, self.cap_bytes, self.find_unused = module, cap_bytes, find_unused
        self.params = {n: p for n, p in module.named_parameters() if p.requires_grad}
        self.plan = list(reversed(self.split(self.params))) if find_unused else [list(self.params)]
        self.first_order = None if find_unused else []
        self.reset()
        for name, p in self.params.items():
            p.register_post_accumulate_grad_hook(lambda p, name=name: self.on_grad(name))

    def forward(self, *inputs):
        return self.module(*inputs)

    def split(self, names):
        plan, now, size = [], [], 0
        for name in names:
            now.append(name)
            size += self.params[name].nbytes
            if size >= self.cap_bytes:
                plan.append(now)
                now, size = [], 0
        return [*plan, now] if now else plan

    def reset(self):
        self.place, self.flats, self.handles = {}, [], []
        for k, names in enumerate(self.plan):
            like = self.params[names[0]]
            self.flats.append(torch.zeros(sum(self.params[n].numel() for n in names), dtype=like.dtype))
            parts = self.flats[-1].split([self.params[n].numel() for n in names])
            self.place |= {n: (k, part.view_as(self.params[n])) for n, part in zip(names, parts, strict=True)}
        self.left = [len(names) for names in self.plan]
        self.came = []

    def on_grad(self, name):
        k, view = self.place[name]
        torch.mul(self.params[name].grad, 1.0 / dist.get_world_size(), out=view)
        self.left[k] -= 1
        self.came.append(name)
        if len(self.came) == 1:
            at_end_of_backward(self.at_end)  # noqa: F821
        while len(self.handles) < len(self.plan) and self.left[len(self.handles)] == 0:
            self.handles.append(dist.all_reduce(self.flats[len(self.handles)], async_op=True))

    def at_end(self):
        flags = torch.tensor([float(name in self.came) for name in self.params])
        for flat in self.flats[len(self.handles) :]:
            self.handles.append(dist.all_reduce(flat, async_op=True))
        if self.find_unused:
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        for handle in self.handles:
            handle.wait()
        for flag, (name, p) in zip(flags.tolist(), self.params.items(), strict=True):
            if flag:
                p.grad = self.place[name][1]
        if self.first_order == []:
            names = list(self.params)
            ids = torch.tensor([names.index(name) for name in self.came])
            dist.broadcast(ids, src=0)
            self.first_order = [names[i] for i in ids.tolist()]
            self.plan = self.split(self.first_order)
        self.reset()
