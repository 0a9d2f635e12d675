# exercise: lab2/elastic-sampler
# finding: resume
# hint: resume
# wrong: the step counts only when the caller comes back
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
            yield whole[self.rank :: self.world_size]
            self.step += 1

    def state_dict(self) -> dict:
        return {"epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state: dict) -> None:
        self.epoch, self.step = state["epoch"], state["step"]
