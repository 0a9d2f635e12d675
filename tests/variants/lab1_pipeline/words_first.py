# exercise: lab1/pipeline
# right: the order as words, then one loop; receives posted with irecv
import torch.distributed as dist


def run_pipeline(stage, schedule, micro_batches):
    """One step of this rank's stage; the mean loss on the last rank."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    room = micro_batches if schedule == "gpipe" else stages - rank
    order, done, back = [], 0, 0
    while back < micro_batches:
        if done < micro_batches and done - back < room:
            order.append(("F", done))
            done += 1
        else:
            order.append(("B", back))
            back += 1
    inputs, outputs, handles, losses = {}, {}, [], []

    def get(peer):
        tensor = stage.empty()
        dist.irecv(tensor, peer).wait()
        return tensor

    for kind, k in order:
        if kind == "F":
            inputs[k] = None if rank == 0 else get(rank - 1).requires_grad_(True)
            outputs[k] = stage.forward(inputs[k], k)
            if rank == stages - 1:
                losses.append(outputs[k].item())
            else:
                handles.append(dist.isend(outputs[k].detach().clone(), rank + 1))
        else:
            stage.backward(outputs.pop(k), None if rank == stages - 1 else get(rank + 1))
            if rank > 0:
                handles.append(dist.isend(inputs.pop(k).grad.clone(), rank - 1))
    [handle.wait() for handle in handles]
    return sum(losses) if losses else None
