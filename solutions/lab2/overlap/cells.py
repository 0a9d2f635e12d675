# %% [markdown]
# ## Exercise 3: send while backward still computes (about 20 minutes, 12 points)
#
# Difficulty ●●●○
#
# Averaging at the end of backward is right, and slow: the network idles while the GPU computes, then the GPU idles
# while the network carries. But the gradients of the *last* layers are ready first, long before backward is done. DDP
# sends them then. One message for each parameter would cost a latency each, so it collects gradients in **buckets**; a
# bucket leaves when all its gradients are there.
#
# One rule keeps this from becoming a hang: **launch order**. Collectives are matched by their order, and a rank whose
# branches run in another order has its gradients ready in another order. So all ranks issue bucket 0 first, then 1,
# then 2, even if bucket 1 happens to be complete earlier. A late bucket 0 holds up all others: that is the price.
#
# ```
#             layer 3   layer 2   layer 1   layer 0            (backward: the last layer first)
# compute   |---------|---------|---------|---------|
# bucket 0            ^ issued  [=========]                      layer 3
# bucket 1                      ^ issued  [=========]            layer 2
# bucket 2                                ^ issued  [=========]  layer 1
# bucket 3                                          ^ issued [=========]  layer 0: nothing hides it
# ```
#
# ### Your task
#
# Write `Overlapped(module, plan)`. `plan` is a list of buckets in launch order, each a list of parameter names (as in
# `module.named_parameters()`); every parameter is in exactly one bucket and gets a gradient in every step. The replicas
# start equal: nothing to broadcast.
#
# - One asynchronous all-reduce for each bucket, of one flat tensor with all its gradients: `torch.cat` of the flattened
#   gradients in the order of the bucket, then `dist.all_reduce(flat, async_op=True)`, which returns a handle at once.
# - Bucket k is issued inside backward, as soon as its gradients *and those of all buckets before it* are complete.
# - Wait for the handles at the end of backward (`at_end_of_backward(fn)`, as in exercise 2), divide, copy back.
# - After `loss.backward()` every `p.grad` is the mean. The next step works like the first.
#
# About 20 lines.
#
# ### What is checked
#
# On 2, 3 and 4 ranks, two steps each; layers registered in another order than they are used; a plan whose first bucket
# is late; a plan that separates weights from biases; two branches which odd ranks compute in the other order. Only the
# layers' backward takes virtual time (2 ms for layer 0, 3 ms for layer 1, ...) and a network that needs several ms for
# each bucket, so you can add up every time in a finding by hand.
#
# | | points |
# |---|---|
# | after backward every gradient is the mean, with the same bits everywhere | 3 |
# | in each step exactly one all-reduce a bucket, with the bucket's bytes, in the order of the plan; nothing else | 3 |
# | backward takes no longer than its layers: nobody waits inside it | 2 |
# | every bucket is issued the moment it can be: all but the last before the last gradient, if the plan allows | 4 |

# %%
# exercise: lab2/overlap
class Overlapped(torch.nn.Module):
    """A module whose gradients are averaged bucket by bucket while backward is still at work."""

    def __init__(self, module: torch.nn.Module, plan: list[list[str]]) -> None:
        super().__init__()
        self.module = module
        ### BEGIN SOLUTION
        # stub: # Your code: which parameter is in which bucket; the hooks.
        # stub: raise NotImplementedError("Overlapped is not written yet")
        parameters = dict(module.named_parameters())
        self.buckets = [[parameters[name] for name in names] for names in plan]
        self.sent = []  # (handle, flat tensor) of the buckets that are on their way, in launch order
        self.missing = [len(bucket) for bucket in self.buckets]
        for k, bucket in enumerate(self.buckets):
            for p in bucket:
                # why: k=k, or every hook would see the last k.
                p.register_post_accumulate_grad_hook(lambda p, k=k: self.ready(k))
        ### END SOLUTION

    def forward(self, *inputs):
        return self.module(*inputs)

    ### BEGIN SOLUTION
    # stub: # Your code: what a hook does when a gradient is ready, and what happens at the end of backward.

    def ready(self, k):
        self.missing[k] -= 1
        # why: a while, not an if: when a late bucket 0 is complete at last, those that waited behind it leave with it.
        while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
            flat = torch.cat([p.grad.flatten() for p in self.buckets[len(self.sent)]])
            self.sent.append((dist.all_reduce(flat, async_op=True), flat))
            if len(self.sent) == len(self.buckets):
                at_end_of_backward(self.finish)

    def finish(self):
        for (handle, flat), bucket in zip(self.sent, self.buckets, strict=True):
            handle.wait()  # why: only now. A wait in a hook would stop the layers that still have to compute.
            flat /= dist.get_world_size()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(part.view_as(p))
        self.sent, self.missing = [], [len(bucket) for bucket in self.buckets]

    ### END SOLUTION


# %%
check("lab2/overlap")

# %%
# hint("lab2/overlap")
