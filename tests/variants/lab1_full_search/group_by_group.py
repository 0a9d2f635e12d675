# exercise: lab1/full-search
# right: goes through the groups in the order of their lowest bounds, with a heap; remembers the smallest too large
import heapq
import itertools

from simulator.planner import Layout


def layouts(model, gpus, batch, gpus_per_node):
    """Every layout by the rules above."""
    found = []
    for tp, pp in itertools.product((8, 4, 2, 1), range(gpus, 0, -1)):
        if gpus % (tp * pp) or tp > gpus_per_node or model.layers % pp or model.heads % tp or model.d_ffn % tp:
            continue
        dp = gpus // (tp * pp)
        highest = 0 if dp == 1 else 1 if pp > 1 else 3
        for zero, recompute, power in itertools.product(range(highest + 1), ("full", "none"), range(12)):
            accumulation, rest = divmod(batch, dp * 2**power)
            if rest == 0:
                how = {"zero": zero, "micro_batch": 2**power, "accumulation": accumulation, "recompute": recompute}
                found.append(Layout(dp, tp, pp, sequence_parallel=tp > 1, **how))
    return found


def search(job):
    """The fastest layout that fits, or what forbids all of them."""
    queue = []
    for number, layout in enumerate(layouts(job.model, job.gpus, job.batch, job.gpus_per_node)):
        heapq.heappush(queue, (job.bound(layout), number, layout))
    if not queue:
        return {"infeasible": "batch"}
    smallest = {}
    for _, _, layout in queue:
        key = layout.dp, layout.tp, layout.pp, layout.accumulation == 1
        rank = (layout.micro_batch, layout.recompute != "full", 3 - layout.zero)
        smallest[key] = min(smallest.get(key, (rank, layout)), (rank, layout), key=lambda pair: pair[0])
    needed = {key: job.memory(layout) for key, (_, layout) in smallest.items()}
    if min(needed.values()) > job.room:
        return {"infeasible": "memory", "needs": min(needed.values())}
    limit, best = {}, (float("inf"), None)
    while queue:
        bound, _, layout = heapq.heappop(queue)
        if bound >= best[0]:
            break
        kind = layout.dp, layout.tp, layout.pp, layout.accumulation == 1, layout.zero, layout.recompute
        if needed[kind[:4]] > job.room or layout.micro_batch >= limit.get(kind, float("inf")):
            continue
        if job.memory(layout) > job.room:
            for zero in range(layout.zero + 1):
                for recompute in {"none", layout.recompute}:
                    other = (*kind[:4], zero, recompute)
                    limit[other] = min(limit.get(other, float("inf")), layout.micro_batch)
            continue
        best = min(best, (job.seconds(layout), layout), key=lambda pair: pair[0])
    if best[0] > job.deadline:
        return {"infeasible": "deadline", "needs": best[0]}
    return {"layout": best[1], "seconds": best[0]}
