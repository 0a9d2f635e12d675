# exercise: lab1/choose
# right: predictions kept in sorted lists
from simulator.planner import predict


def choose(model, cluster, budget):
    """The cheapest plan of budget.plans with its limits, or {"infeasible": reason}."""
    gib = cluster.gpu.memory_gib * (1 - budget.reserve)
    found = [predict(model, layout, cluster) for layout in budget.plans]
    found = sorted((p for p in found if p.memory.total / 2**30 <= gib), key=lambda p: p.step_s)
    if not found:
        return {"infeasible": "memory"}
    tokens = budget.batch * model.seq_len

    def hours(p):
        return budget.tokens / tokens * p.step_s / 3600

    def dollars(p):
        return hours(p) * p.layout.gpus * budget.usd_per_gpu_hour

    if hours(found[0]) > budget.hours:
        return {"infeasible": "deadline"}
    best = sorted((p for p in found if hours(p) <= budget.hours), key=dollars)[0]
    if dollars(best) > budget.dollars:
        return {"infeasible": "dollars"}
    rest = [p.layout for p in found if p.layout.gpus <= budget.gpus - cluster.gpus_per_node]
    return {
        "plan": best.layout,
        "step_s": best.step_s,
        "hours": round(hours(best), 3),
        "dollars": round(dollars(best), 2),
        "tokens_per_s": tokens / best.step_s,
        "fallback": rest[0] if rest else None,
    }
