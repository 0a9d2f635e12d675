# exercise: lab2/elastic-sampler
# finding: crash
# hint: crash
# wrong: a state that only ranks of the old world find themselves in
import torch


class ElasticSampler:
    """This rank's part of each global batch, resumable at every step with another world size."""

    def __init__(self, num_samples: int, batch: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.num_samples, self.batch, self.rank, self.world_size, self.seed = num_samples, batch, rank, world_size, seed
        self.epoch = self.step = 0

    def __iter__(self):
        if self.step * self.batch >= self.num_samples:
            self.epoch, self.step = self.epoch + 1, 0
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        while self.step * self.batch < self.num_samples:
            whole = order[self.step * self.batch : (self.step + 1) * self.batch]
            self.step += 1
            yield whole[self.rank :: self.world_size]

    def state_dict(self) -> dict:
        return {str(rank): [self.epoch, self.step] for rank in range(self.world_size)}

    def load_state_dict(self, state: dict) -> None:
        self.epoch, self.step = state[str(self.rank)]
