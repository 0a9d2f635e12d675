# exercise: lab1/choose
# right: one pass that remembers the best of each kind
from simulator.planner import predict


def choose(model, cluster, budget):
    """The cheapest plan of budget.plans with its limits, or {"infeasible": reason}."""
    reason, best, spare = "memory", None, None
    for layout in budget.plans:
        p = predict(model, layout, cluster)
        if p.memory.total > (1 - budget.reserve) * cluster.gpu.memory_gib * 2**30:
            continue
        hours = budget.tokens / (budget.batch * model.seq_len) * p.step_s / 3600
        dollars = hours * layout.gpus * budget.usd_per_gpu_hour
        if layout.gpus <= budget.gpus - cluster.gpus_per_node and (spare is None or p.step_s < spare.step_s):
            spare = p
        if hours > budget.hours:
            reason = "deadline" if reason == "memory" else reason
            continue
        if dollars > budget.dollars:
            reason = "dollars"
            continue
        if best is None or dollars < best["dollars"]:
            best = {"plan": layout, "step_s": p.step_s, "hours": hours, "dollars": dollars}
            best["tokens_per_s"] = p.tokens_per_s_per_gpu * layout.gpus
    if best is None:
        return {"infeasible": reason}
    return {**best, "fallback": spare.layout if spare else None}
