# exercise: lab1/pipeline
# finding: crash
# hint: crash
# wrong: x.grad is None
import torch.distributed as dist

from autograder.checks.lab1.stage import Stage


def run_pipeline(stage: Stage, schedule: str, micro_batches: int) -> float | None:
    """One step of this rank's stage; the mean loss on the last rank."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept, sent, total = {}, [], 0.0

    def receive(peer):
        tensor = stage.empty()
        dist.recv(tensor, peer)
        return tensor

    def forward(k):
        x = receive(rank - 1) if rank else None
        out = stage.forward(x, k)
        kept[k] = x, out
        if rank < last:
            sent.append(dist.isend(out.detach(), rank + 1))
            return 0.0
        return float(out.detach())

    def backward(k):
        x, out = kept.pop(k)
        stage.backward(out, receive(rank + 1) if rank < last else None)
        if rank:
            sent.append(dist.isend(x.grad, rank - 1))

    ahead = micro_batches if schedule == "gpipe" else min(last - rank, micro_batches)
    for k in range(ahead):
        total += forward(k)
    for k in range(micro_batches):
        if ahead + k < micro_batches:
            total += forward(ahead + k)
        backward(k)
    for handle in sent:
        handle.wait()
    return total if rank == last else None
