# exercise: lab1/full-search
# right: asks for the time first, and for the memory only of what would win
from simulator.planner import Layout


def layouts(model, gpus, batch, gpus_per_node):
    """Every layout by the rules above."""
    return [
        Layout(
            gpus // (tp * pp),
            tp,
            pp,
            zero=zero,
            micro_batch=size,
            accumulation=batch // (gpus // (tp * pp)) // size,
            recompute=recompute,
            sequence_parallel=tp > 1,
        )
        for tp in (1, 2, 4, 8)
        if tp <= gpus_per_node and gpus % tp == 0 and model.heads % tp == 0 and model.d_ffn % tp == 0
        for pp in range(1, gpus + 1)
        if gpus % (tp * pp) == 0 and model.layers % pp == 0 and batch % (gpus // (tp * pp)) == 0
        for size in (1, 2, 4, 8, 16, 32, 64, 128, 256)
        if batch % (gpus // (tp * pp) * size) == 0
        for zero in range(4)
        if zero == 0 or (gpus > tp * pp and (zero == 1 or pp == 1))
        for recompute in ("none", "full")
    ]


def search(job):
    """The fastest layout that fits, or what forbids all of them."""
    everything = layouts(job.model, job.gpus, job.batch, job.gpus_per_node)
    if not everything:
        return {"infeasible": "batch"}
    large = []

    def at_least(a, b):
        return (
            degrees(a) == degrees(b)
            and a.micro_batch >= b.micro_batch
            and a.zero <= b.zero
            and a.recompute >= b.recompute
        )

    def degrees(layout):
        return layout.dp, layout.tp, layout.pp, layout.accumulation == 1

    needs, room = [], []
    for key in sorted({degrees(layout) for layout in everything}):
        group = [layout for layout in everything if degrees(layout) == key]
        [smallest] = [layout for layout in group if all(at_least(other, layout) for other in group)]
        needs.append(job.memory(smallest))
        room += group if needs[-1] <= job.room else []
    if not room:
        return {"infeasible": "memory", "needs": min(needs)}
    winner, time = None, float("inf")
    for bound, layout in sorted(((job.bound(layout), layout) for layout in room), key=lambda pair: pair[0]):
        if bound >= time:
            break
        if any(at_least(layout, other) for other in large):
            continue
        taken = job.seconds(layout)
        if taken >= time:
            continue
        if job.memory(layout) > job.room:
            large.append(layout)
        else:
            winner, time = layout, taken
    return {"layout": winner, "seconds": time} if time <= job.deadline else {"infeasible": "deadline", "needs": time}
