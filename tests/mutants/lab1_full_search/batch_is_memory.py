# exercise: lab1/full-search
# finding: reason
# hint: reason
# wrong: no layout at all is called a lack of memory
from autograder.checks.lab1.search_job import Job
from simulator.planner import Layout, Transformer


def layouts(model: Transformer, gpus: int, batch: int, gpus_per_node: int) -> list[Layout]:
    """Every layout by the rules above."""
    from dataclasses import replace

    found = []
    for tp in (1, 2, 4, 8):
        if tp > gpus_per_node or gpus % tp or model.heads % tp or model.d_ffn % tp:
            continue
        for pp in range(1, gpus // tp + 1):
            dp = gpus // tp // pp
            if dp * tp * pp != gpus or model.layers % pp or batch % dp:
                continue
            each = batch // dp
            stages = [0] if dp == 1 else [0, 1] if pp > 1 else [0, 1, 2, 3]
            for size in (2**k for k in range(each.bit_length()) if each % 2**k == 0):
                for zero in stages:
                    more = {"zero": zero, "micro_batch": size, "accumulation": each // size}
                    plain = Layout(dp, tp, pp, sequence_parallel=tp > 1, **more)
                    found += [plain, replace(plain, recompute="full")]
    return found


def search(job: Job) -> dict:
    """The fastest layout that fits, or what forbids all of them."""
    groups: dict = {}
    for layout in layouts(job.model, job.gpus, job.batch, job.gpus_per_node):
        groups.setdefault((layout.dp, layout.tp, layout.pp, layout.accumulation == 1), []).append(layout)
    if not groups:
        return {"infeasible": "memory", "needs": float("inf")}

    def size(layout):
        return layout.micro_batch, -layout.zero, layout.recompute == "none"

    least = {key: job.memory(min(group, key=size)) for key, group in groups.items()}
    left = [layout for key, group in groups.items() if least[key] <= job.room for layout in group]
    if not left:
        return {"infeasible": "memory", "needs": min(least.values())}
    best, seconds, too_large = None, float("inf"), []
    for layout in sorted(left, key=job.bound):
        if job.bound(layout) >= seconds:
            break
        degrees = layout.dp, layout.tp, layout.pp, layout.accumulation == 1
        if any(d == degrees and all(a >= b for a, b in zip(size(layout), s, strict=True)) for d, s in too_large):
            continue
        if job.memory(layout) > job.room:
            too_large.append((degrees, size(layout)))
        elif (taken := job.seconds(layout)) < seconds:
            best, seconds = layout, taken
    return (
        {"layout": best, "seconds": seconds}
        if seconds <= job.deadline
        else {"infeasible": "deadline", "needs": seconds}
    )
