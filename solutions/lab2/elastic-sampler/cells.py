# %% [markdown]
# ## Stretch: an order that survives restarts (about 20 minutes, 8 points)
#
# Difficulty ●●●○ · stretch points earn a badge, not a grade
#
# A node is lost in the middle of an epoch; the job goes on with 3 ranks in the place of 4. Which samples come next?
# With the sampler of exercise 1 nobody can say: a rank's part depends on W, and after a resume many loaders begin the
# epoch anew. Some samples are then seen twice and others never, and the run cannot be compared with one that was not
# interrupted.
#
# The cure is to let the *global* order be the truth: step k of an epoch has the k-th global batch, whoever computes
# it. The ranks only divide it.
#
# ### Your task
#
# Write `ElasticSampler(num_samples, batch, rank, world_size, seed=0)`.
#
# - Iterating runs through *one epoch* from where the sampler stands, and yields for each step the list of this rank's
#   indices. The global batch has `batch` samples (the last of an epoch may be shorter), and the ranks' parts differ by
#   at most one sample.
# - After an epoch the next iteration is the next epoch, in another order, which depends on seed and epoch alone.
# - `state_dict()` says where the sampler stands, in plain numbers (it goes through JSON) and equally on all ranks. It
#   may be asked inside of the loop: the step whose batch was yielded last counts as done.
# - `load_state_dict(state)` goes on from there, whatever the world size. A state taken after an epoch's last step
#   begins the next epoch.
#
# About 15 lines.
#
# ### What is checked
#
# Two epochs on one rank, then the same with restarts: 4 then 3 ranks, 3 then 4 then 2, at an epoch's end, after it.
#
# | | points |
# |---|---|
# | an epoch shows every index once, in batches; the next one has another order | 2 |
# | in each step the ranks together have the samples that the step has without a restart | 5 |
# | the parts of a step differ by at most one sample | 1 |

# %%
# exercise: lab2/elastic-sampler
class ElasticSampler:
    """This rank's part of each global batch, resumable at every step with another world size."""

    def __init__(self, num_samples: int, batch: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.num_samples, self.batch, self.rank, self.world_size, self.seed = num_samples, batch, rank, world_size, seed
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("ElasticSampler is not written yet")
        self.epoch = self.step = 0
        ### END SOLUTION

    def __iter__(self):
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("__iter__ is not written yet")
        # why: the state may have been taken after the last step; then this epoch has nothing left.
        if self.step * self.batch >= self.num_samples:
            self.epoch, self.step = self.epoch + 1, 0
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        while self.step * self.batch < self.num_samples:
            whole = order[self.step * self.batch : (self.step + 1) * self.batch]
            # why: before the yield. The caller works on this batch and may save before it comes back.
            self.step += 1
            yield whole[self.rank :: self.world_size]  # why: only here the world size plays a part
        ### END SOLUTION

    def state_dict(self) -> dict:
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("state_dict is not written yet")
        # why: nothing of one rank and nothing of the world size: both may be others afterwards.
        return {"epoch": self.epoch, "step": self.step}
        ### END SOLUTION

    def load_state_dict(self, state: dict) -> None:
        ### BEGIN SOLUTION
        # stub: raise NotImplementedError("load_state_dict is not written yet")
        self.epoch, self.step = state["epoch"], state["step"]
        ### END SOLUTION


# %%
check("lab2/elastic-sampler")

# %%
# hint("lab2/elastic-sampler")
