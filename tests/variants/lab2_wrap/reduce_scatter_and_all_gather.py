# exercise: lab2/wrap
# right: the two halves of an all-reduce, over padded pieces; state with no_grad
import torch
import torch.distributed as dist


class Replicated(torch.nn.Module):
    """A module whose replicas start equal and average their gradients in every backward."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

        with torch.no_grad():
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, src=0)
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
        world_size = dist.get_world_size()
        for p in self.trained:
            flat = torch.zeros(-(-p.numel() // world_size) * world_size)
            if p.grad is not None:
                flat[: p.numel()] = p.grad.flatten()
            mine = torch.empty(flat.numel() // world_size)
            dist.reduce_scatter_tensor(mine, flat)
            dist.all_gather_into_tensor(flat, mine / world_size)
            p.grad = flat[: p.numel()].view_as(p).clone()
