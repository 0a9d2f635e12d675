# exercise: lab2/bucketed-ddp
# finding: forbidden
# hint: none
# wrong: wraps the module in DistributedDataParallel
import torch


class Bucketed(torch.nn.Module):
    """A module whose gradients are averaged as by torch's DistributedDataParallel, bit for bit."""

    def __init__(self, module: torch.nn.Module, cap_bytes: int, find_unused: bool = False) -> None:
        super().__init__()
        self.module = torch.nn.parallel.DistributedDataParallel(
            module, bucket_cap_mb=cap_bytes / 2**20, find_unused_parameters=find_unused
        )

    def forward(self, *inputs):
        return self.module(*inputs)
