# exercise: lab1/communication-volume
# right: sums operation by operation, and tries numbers of ranks
def wire(op, num_bytes, ranks):
    """Bytes that each rank sends in a ring."""
    share = num_bytes / ranks
    once = num_bytes - share
    return 2 * once if op == "all_reduce" else once


def _bytes(shape, job, multiple):
    rows = shape[0] + (-shape[0]) % multiple
    for n in shape[1:]:
        rows *= n
    return rows * job.itemsize


def step_bytes(strategy, job, rank):
    """Bytes that `rank` sends in one step."""
    total = 0.0
    if strategy in ("ddp", "zero3"):
        for k, unit in enumerate(job.units):
            for shape in unit:
                if strategy == "ddp":
                    total += wire("all_reduce", _bytes(shape, job, 1), job.ranks)
                else:
                    times = 3 if k < job.layers else 2
                    total += times * wire("all_gather", _bytes(shape, job, job.ranks), job.ranks)
        return total
    sequences = job.batch / job.micro_batches
    for _ in range(job.micro_batches):
        num_bytes = sequences * job.seq_len * job.width * job.itemsize
        if strategy == "tp":
            total += sum(wire("all_reduce", num_bytes, job.ranks) for _ in range(4 * job.layers))
        else:
            total += num_bytes * sum(0 <= other < job.ranks for other in (rank - 1, rank + 1))
    return total


def most_ranks(compute_s, passes, num_bytes, gbytes_per_s):
    """The largest number of ranks at which the network is not slower than the computing on a rank."""
    ranks = 1
    while passes * ranks / (ranks + 1) * num_bytes / (gbytes_per_s * 1e9) <= compute_s / (ranks + 1):
        ranks += 1
    return ranks
