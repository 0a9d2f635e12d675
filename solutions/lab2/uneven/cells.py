# %% [markdown]
# ## Stretch: when one rank has more data (about 20 minutes, 10 points)
#
# Difficulty ●●●○ · stretch points earn a badge, not a grade
#
# A sampler gives all ranks equally many batches, because it knows the size of the dataset. A stream does not: one rank
# reads a longer log file, another drops broken records. Under plain DDP the rank that has one batch more waits in its
# all-reduce for ranks that have left the loop: it waits until the timeout.
#
# PyTorch has a context manager for that, `Join`. Ranks that are done go on to take part in collectives, with zeros. But
# the sum is divided by *all* ranks, also by those that gave nothing. See for yourself: two ranks with one and two
# batches; every batch alone gives the gradient 1.

# %%
def with_join() -> list[float]:
    from torch.distributed.algorithms.join import Join

    replica = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    gradients = []
    with Join([replica]):
        for _ in range(dist.get_rank() + 1):
            replica.zero_grad()
            replica(torch.ones(1, 1)).sum().backward()
            gradients.append(replica.module.weight.grad.item())
    return gradients


print("gradients by rank and round:", simulator.run(with_join, world_size=2).results)

# %% [markdown]
# The lone rank's batch counts half. On 64 ranks the last batch would count a 64th. (`Join` can raise an error instead,
# with `throw_on_early_termination`; then all ranks drop what is left of the longest.) Neither is what one GPU would
# have done with the same samples.
#
# ### Your task
#
# Write `train_epoch(module, batches, step)`.
#
# - `batches` is an *iterator* of this rank's `(x, y)`; how many there are is not known before, and each has its own
#   number of samples `len(x)`. The loss of a sample is `(module(x).squeeze(-1) - y).square()`.
# - In every round each rank that still has a batch takes its next one. Then every `p.grad` is, on *all* ranks, the
#   gradient of **(sum of the losses of all samples of this round, of all ranks) / (number of these samples)**, and
#   every rank calls `step()`. It changes the weights and sets every `p.grad` to `None`.
# - When no rank has a batch any more, the function returns, without another `step()`. A rank may have no batch at all.
#
# All ranks start with equal weights. `DistributedDataParallel` is off; all parameters are trained, and a rank with a
# batch uses all of them. About 15 lines.
#
# ### What is checked
#
# On 2, 3 and 4 ranks: rank 0 has most or least, a rank has nothing, all have equally many.
#
# | | points |
# |---|---|
# | every rank returns | 2 |
# | every rank calls `step()` once a round, as often as the longest rank has batches | 2 |
# | at each `step()` the gradients are the mean over the samples of that round | 4 |
# | the replicas end with the same bits | 1 |
# | the gradients travel once a round, with at most 64 bytes more (one round more at the end is fine) | 1 |


# %%
# exercise: lab2/uneven
def train_epoch(module: torch.nn.Module, batches, step) -> None:
    """Train until no rank has a batch; each round's gradient is the mean over all its samples."""
    ### BEGIN SOLUTION
    # stub: # Your code: in each round, who still has a batch, and how many samples are there? Then sum, divide, step.
    # stub: raise NotImplementedError("train_epoch is not written yet")
    parameters = list(module.parameters())
    while True:
        x, y = next(batches, (None, None))
        samples = torch.tensor(0 if x is None else len(x))
        # why: one small all-reduce tells both: this round's divisor, and whether there is a round at all. All ranks
        # see the same number, so all leave in the same round; nobody decides alone.
        dist.all_reduce(samples)
        if samples == 0:
            return
        if x is not None:
            # why: sums, not means, so that each sample has the same weight whatever batch it is in.
            (module(x).squeeze(-1) - y).square().sum().backward()
        # why: a rank that is done still has to come to the all-reduce. Zeros change nothing in a sum.
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, part in zip(parameters, (flat / samples).split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        step()
    ### END SOLUTION


# %%
check("lab2/uneven")

# %%
# hint("lab2/uneven")
