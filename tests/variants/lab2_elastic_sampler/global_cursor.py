# exercise: lab2/elastic-sampler
# right: counts samples of all ranks in one number over all epochs
import torch


class ElasticSampler:
    """This rank's part of each global batch, resumable at every step with another world size."""

    def __init__(self, num_samples: int, batch: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.num_samples, self.batch, self.rank, self.world_size, self.seed = num_samples, batch, rank, world_size, seed
        self.done = 0

    def __iter__(self):
        epoch, begin = divmod(self.done, self.num_samples)
        generator = torch.Generator().manual_seed(self.seed * 100_003 + epoch)
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        for first in range(begin, self.num_samples, self.batch):
            whole = order[first : first + self.batch]
            self.done += len(whole)
            yield whole[self.rank :: self.world_size]

    def state_dict(self) -> dict:
        return {"done": self.done}

    def load_state_dict(self, state: dict) -> None:
        self.done = state["done"]
