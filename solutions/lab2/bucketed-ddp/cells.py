# %% [markdown]
# ## Stretch: DDP, bit for bit (about 45 minutes, 15 points)
#
# Difficulty ●●●● · stretch points earn a badge, not a grade
#
# Exercise 3 got its plan as a gift. DDP makes its own, and changes it once: nobody can know in which order gradients
# become ready before there was a backward pass. Watch it. Four layers, used in another order than they are registered,
# with `bucket_cap_mb` at 1,000 bytes:

# %%
def watch_ddp() -> None:
    class Shuffled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = (torch.nn.Linear(12, 12) for _ in range(4))

        def forward(self, x):
            return self.d(self.b(self.c(self.a(x))))

    replica = torch.nn.parallel.DistributedDataParallel(Shuffled(), bucket_cap_mb=1000 / 2**20)
    for _ in simulator.steps(3):
        replica(torch.randn(3, 12)).square().mean().backward()


for e in simulator.run(watch_ddp, world_size=3).trace.of_rank(0):
    if e.is_collective and e.step >= 0:
        print(f"step {e.step}: {e.op:10} {e.bytes:5} bytes, issued at {e.issue_ns / 1e3:6.1f} us")

# %% [markdown]
# In step 0 everything is one bucket: no overlap at all. Then rank 0 broadcasts something small, and from step 1 on
# there are two buckets, the first of which leaves while backward is still at work.
#
# Does such a detail matter? It changes *bits*: on 3 ranks, where an element lies in a bucket decides in which order its
# three numbers are added (you saw it at the top of this notebook). So a job that is restarted, and begins with one
# bucket again, does not continue with the bits of the job that was not. If you want to explain that, you have to know
# the rules.
#
# ### The rules of torch 2.13
#
# 1. Only parameters with `requires_grad` take part. In step 0 there is **one bucket** with all of them, in the order of
#    `module.parameters()`.
# 2. During that first backward DDP notes the order in which gradients become ready. Before the next one it **rebuilds**
#    the buckets: it walks through *rank 0's* order (broadcast to all: ranks may differ), puts parameter after parameter
#    into a bucket, and closes the bucket when its size has reached `cap_bytes` **or more**. The same buckets serve all
#    further steps.
# 3. In a bucket the gradients lie one after the other. Each is **multiplied by 1/W before** the all-reduce
#    (`x * (1 / 3)` and `x / 3` are different bits), whose sums are the result.
# 4. Buckets are launched in order, as soon as they and all before them are complete.
# 5. With `find_unused=True` there is **no rebuild**: a gradient may not come at all, so there may be no order. The
#    buckets are made before the first step, from the order of `module.parameters()`, cut in the same way; and then the
#    *list of buckets* is reversed, because backward begins with the last. A parameter that this rank did not use counts
#    as zeros. One that *no* rank used keeps what it had: `None`, if it had none. To know that, DDP all-reduces a
#    small tensor of flags.
#
# ### Your task
#
# Write `Bucketed(module, cap_bytes, find_unused=False)` by these rules. The replicas start equal, there are no buffers,
# and `p.grad` is `None` before each step. `at_end_of_backward(fn)` is there as in exercises 2 and 3, which are a good
# start. About 45 lines.
#
# ### What is checked
#
# torch's DDP makes the same three steps beside yours, on 2, 3 and 4 ranks: layers registered in another order, branches
# which odd ranks compute in the other order, tied, shared and frozen parameters, float64, and parameters that some
# ranks or all do not use. As in exercise 3 only the layers' backward (2, 3, 4, ... ms) and the network take time.
#
# | | points |
# |---|---|
# | every gradient is right, up to rounding | 3 |
# | in each step your all-reduces have the bytes of torch's, in its order (small broadcasts are free) | 4 |
# | no element of any gradient differs from torch's in any bit | 4 |
# | no bucket is issued later than by torch | 2 |
# | all but the times holds with unused parameters, too | 2 |


# %%
# exercise: lab2/bucketed-ddp
class Bucketed(torch.nn.Module):
    """A module whose gradients are averaged as by torch's DistributedDataParallel, bit for bit."""

    def __init__(self, module: torch.nn.Module, cap_bytes: int, find_unused: bool = False) -> None:
        super().__init__()
        self.module, self.cap_bytes, self.find_unused = module, cap_bytes, find_unused
        ### BEGIN SOLUTION
        # stub: # Your code: the buckets of step 0; a hook for each trained parameter.
        # stub: raise NotImplementedError("Bucketed is not written yet")
        self.trained = [p for p in module.parameters() if p.requires_grad]
        numbers = range(len(self.trained))
        # why: one bucket, so that step 0 works whatever the order will be; with find_unused the order never counts.
        self.buckets = self.cut(numbers)[::-1] if find_unused else [list(numbers)]
        self.is_rebuilt = find_unused
        self.begin_step()
        for i, p in enumerate(self.trained):
            p.register_post_accumulate_grad_hook(lambda p, i=i: self.ready(i))
        ### END SOLUTION

    def forward(self, *inputs):
        return self.module(*inputs)

    ### BEGIN SOLUTION
    # stub: # Your code: cutting an order into buckets; a ready gradient; the end of backward; the rebuild.

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
            at_end_of_backward(self.finish)
        self.order.append(i)
        for missing in self.missing:
            missing.discard(i)
        self.launch()

    def launch(self):
        # why: a while, and only ever the next bucket: launch order is what all ranks have in common.
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            bucket = [self.trained[i] for i in self.buckets[len(self.sent)]]
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
            flat *= 1 / dist.get_world_size()  # why: before the sum, and a product: torch's bits
            self.sent.append((dist.all_reduce(flat, async_op=True), flat))

    def finish(self):
        used = torch.zeros(len(self.trained), dtype=torch.int32)
        used[self.order] = 1
        if self.find_unused:
            # why: what did not come by the end of backward will not come. Only now is that known.
            self.missing = [set() for _ in self.buckets]
            self.launch()
            dist.all_reduce(used)
        for (handle, flat), bucket in zip(self.sent, self.buckets, strict=True):
            handle.wait()
            sizes = [self.trained[i].numel() for i in bucket]
            for i, part in zip(bucket, flat.split(sizes), strict=True):
                if used[i]:  # why: without find_unused every hook has fired, so all are used
                    self.trained[i].grad = part.view_as(self.trained[i]).clone()
        if not self.is_rebuilt:
            # why: rank 0's order on all ranks. A rank that cuts its own order has other buckets than the others.
            order = torch.tensor(self.order)
            dist.broadcast(order, 0)
            self.buckets, self.is_rebuilt = self.cut(order.tolist()), True
        self.begin_step()

    ### END SOLUTION


# %%
check("lab2/bucketed-ddp")

# %%
# hint("lab2/bucketed-ddp")
