# exercise: lab2/wrap
# finding: mismatch
# hint: mismatch
# wrong: rank 0 broadcasts alone
import torch
import torch.distributed as dist


class Replicated(torch.nn.Module):
    """A module whose replicas start equal and average their gradients in every backward."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

        if dist.get_rank() == 0:
            for tensor in [*module.parameters(), *module.buffers()]:
                dist.broadcast(tensor.detach(), src=0)
        self.trained = [p for p in module.parameters() if p.requires_grad]
        self.arranged = False
        for p in self.trained:
            p.register_post_accumulate_grad_hook(self.arrange)

    def forward(self, *inputs):
        return self.module(*inputs)

    def arrange(self, _):
        if not self.arranged:
            self.arranged = True
            at_end_of_backward(self.average)  # noqa: F821

    def average(self):
        self.arranged = False
        for p in self.trained:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
