# %% [markdown]
# ## Exercise 1: every sample once (about 15 minutes, 10 points)
#
# Difficulty ●○○○
#
# DDP does not split your batch. It only averages gradients; *which* samples a rank sees is decided by the sampler, and
# a wrong one raises no error. Three ways in which it goes wrong without a word:
#
# - every rank draws on its own: some samples come twice in an epoch, others never;
# - nobody calls `set_epoch`: every epoch has the same order (PyTorch issue 31771, and many since);
# - the dataset does not divide by the world size, so some samples are repeated, and the evaluation counts them twice.
#
# A fourth comes from outside: a node has *yesterday's* shard in its cache. Its number of samples differs, so its rank
# has fewer batches than the others, and they wait for it for ever; or worse, the numbers are equal and nobody notices.
# That is why the contract of the inputs is checked before the first sample is drawn.

# %% tags=["setup"]
import dataclasses
import datetime


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What stands beside a shard of data, and what the contract declares."""

    dataset: str
    version: str
    owner: str
    num_samples: int
    newest_event: datetime.datetime  # event time of the newest sample
    available: datetime.datetime  # when it could be read


# %% [markdown]
# ### Your task
#
# Write `ShardSampler(shard, contract, rank, world_size, seed=0)`. Both manifests are of the class above: `shard` is
# what lies on this rank's node, `contract` what the job declares. A shard is the *whole* day; each rank has a copy of
# it and takes its own part of the samples.
#
# - **The contract.** Raise `ValueError` if the shard's version is not exactly the contract's (the message names both
#   versions), or if its newest event is older than the contract's. A newer event is fine.
# - **The order** of an epoch is a permutation of `range(shard.num_samples)` that depends on seed and epoch alone:
#   `set_epoch(epoch)` chooses it, before the first call it is epoch 0. Use a `torch.Generator` of your own, so that the
#   global random state stays as it is.
# - **The partition.** Iterating yields this rank's indices, ceil(n / W) of them on every rank; `len(sampler)` says so.
#   Together the ranks cover the whole permutation. Where W does not divide n, repeat samples to fill up (with fewer
#   samples than ranks some come several times).
# - **Declared padding.** `sampler.padding` says how many samples *at the end of this rank's list* are repeats, so that
#   an evaluation can leave them out: without them, every index comes exactly once.
#
# About 15 lines. Your cell runs on its own, with the imports at the top and `Manifest`, and nothing else of this
# notebook.
#
# ### What is checked
#
# With 1, 2, 3, 4, 5 and 8 ranks, datasets that divide and that do not, one with fewer samples than ranks; epochs 0, 1,
# 2 and 1 again; two seeds; a shard with an older version, a newer version, and one that was cut off early.
#
# | | points |
# |---|---|
# | every rank yields ceil(n / W) samples, and `len` says so | 1 |
# | together they show every index | 3 |
# | without the declared padding, every index comes exactly once | 2 |
# | another order and other samples in each epoch, the same when asked again; no global random state changes | 2 |
# | a stale shard is refused with a `ValueError` that says why | 2 |


# %%
# exercise: lab2/sampler
class ShardSampler(torch.utils.data.Sampler):
    """This rank's indices of one epoch: shuffled together, divided, filled up to equal lengths."""

    def __init__(self, shard: Manifest, contract: Manifest, rank: int, world_size: int, seed: int = 0) -> None:
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("ShardSampler is not written yet")

        # why: a rank with other data than its peers fails late and far away, or never. Here it fails at once, by name.
        if shard.version != contract.version:
            raise ValueError(
                f"{shard.dataset}: this node has {shard.version}, the contract asks for {contract.version}"
            )
        if shard.newest_event < contract.newest_event:
            raise ValueError(f"{shard.dataset} ends at {shard.newest_event}, expected {contract.newest_event} or later")
        self.num_samples, self.rank, self.world_size, self.seed = shard.num_samples, rank, world_size, seed
        self.epoch = 0
        ### END SOLUTION

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch."""
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("set_epoch is not written yet")
        self.epoch = epoch
        ### END SOLUTION

    def __len__(self) -> int:
        """Samples of this rank in one epoch, padding included."""
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("__len__ is not written yet")
        return -(-self.num_samples // self.world_size)
        ### END SOLUTION

    @property
    def padding(self) -> int:
        """How many samples at the end of this rank's list are repeats."""
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("padding is not written yet")
        # why: position i of the filled list goes to rank i % W, so the repeats are the last position of the last ranks.
        return sum(i >= self.num_samples for i in range(self.rank, len(self) * self.world_size, self.world_size))
        ### END SOLUTION

    def __iter__(self):
        """This rank's indices of the epoch."""
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("__iter__ is not written yet")
        # why: every rank makes the same permutation from the same numbers, so nobody has to communicate. A generator
        # of its own leaves the global one, which dropout uses, alone.
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        filled = [order[i % self.num_samples] for i in range(len(self) * self.world_size)]
        yield from filled[self.rank :: self.world_size]
        ### END SOLUTION


# %%
check("lab2/sampler")

# %%
# hint("lab2/sampler")
