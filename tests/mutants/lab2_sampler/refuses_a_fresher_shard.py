# exercise: lab2/sampler
# finding: stale
# hint: stale
# wrong: takes the event time for an exact value
from typing import Any

import torch


class ShardSampler(torch.utils.data.Sampler):
    """This rank's indices of one epoch: shuffled together, divided, filled up to equal lengths."""

    def __init__(self, shard: Any, contract: Any, rank: int, world_size: int, seed: int = 0) -> None:

        if shard.version != contract.version:
            raise ValueError(
                f"{shard.dataset}: this node has {shard.version}, the contract asks for {contract.version}"
            )
        if shard.newest_event != contract.newest_event:
            raise ValueError(f"{shard.dataset} ends at {shard.newest_event}, expected {contract.newest_event} or later")
        self.num_samples, self.rank, self.world_size, self.seed = shard.num_samples, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Samples of this rank in one epoch, padding included."""
        return -(-self.num_samples // self.world_size)

    @property
    def padding(self) -> int:
        """How many samples at the end of this rank's list are repeats."""
        return sum(i >= self.num_samples for i in range(self.rank, len(self) * self.world_size, self.world_size))

    def __iter__(self):
        """This rank's indices of the epoch."""
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        filled = [order[i % self.num_samples] for i in range(len(self) * self.world_size)]
        yield from filled[self.rank :: self.world_size]
