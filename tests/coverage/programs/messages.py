"""Point to point."""

import torch
import torch.distributed as dist

from tests.coverage.catalogue import covers
from tests.coverage.programs.inputs import DTYPES, name, numbers

SECTION = "Point to point"
Result = dict[str, object]


@covers(SECTION, "`send`, `recv`, `isend`, `irecv` with tags received out of order; every dtype", worlds=(2, 3))
def tagged_messages() -> Result:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    results: Result = {}
    for dtype in DTYPES:
        sends = [dist.isend(numbers(6, dtype=dtype, salt=tag), right, tag=tag) for tag in range(3)]
        received = {tag: torch.empty(6, dtype=dtype) for tag in range(3)}
        for tag in (2, 0, 1):
            dist.recv(received[tag], left, tag=tag)
        for work in sends:
            assert work is not None
            work.wait()
        results[name(dtype)] = list(received.values())
    return results


@covers(
    SECTION, "`batch_isend_irecv`, to several peers and to oneself's neighbours both ways", worlds=(3,), slow=(2, 4)
)
def batched_messages() -> Result:
    rank, size = dist.get_rank(), dist.get_world_size()
    peers = [peer for peer in range(size) if peer != rank]
    received = [torch.empty(20) for _ in peers]
    ops = [dist.P2POp(dist.isend, numbers(20, salt=peer), peer) for peer in peers]
    ops += [dist.P2POp(dist.irecv, buffer, peer) for buffer, peer in zip(received, peers, strict=True)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return {"received": received}


@covers(SECTION, "`recv` from any source (the order of arrival is virtual time's, where plain gloo's is chance)")
def any_source() -> Result:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(numbers(4), 0)
        return {}
    seen: dict[int, torch.Tensor] = {}
    for _ in range(size - 1):
        buffer = torch.empty(4)
        seen[dist.recv(buffer)] = buffer
    return {"by source": [seen[source] for source in sorted(seen)]}


@covers(SECTION, "messages within a subgroup, by group rank")
def messages_in_a_group() -> Result:
    rank = dist.get_rank()
    group = dist.new_group([1, 2])
    buffer = torch.zeros(5)
    if rank == 1:
        dist.send(numbers(5), group=group, group_dst=1)
        dist.recv(buffer, src=2, group=group)
    elif rank == 2:
        dist.recv(buffer, group=group, group_src=0)
        dist.send(numbers(5), dst=1, group=group)
    return {"buffer": buffer}
