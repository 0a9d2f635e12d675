# exercise: lab1/choose
# finding: plan
# hint: plan
# wrong: pays for GPUs that the plan leaves to others
from autograder.checks.lab1.budget import Budget
from simulator import planner
from simulator.cluster import Cluster


def choose(model, cluster: Cluster, budget: Budget) -> dict:
    """The cheapest plan of budget.plans with its limits, or {"infeasible": reason}."""
    room = (1 - budget.reserve) * cluster.gpu.memory_gib * 2**30
    steps = budget.tokens / (budget.batch * model.seq_len)
    fitting = []
    for layout in budget.plans:
        p = planner.predict(model, layout, cluster)
        hours = steps * p.step_s / 3600
        if p.memory.total <= room:
            fitting.append((hours * budget.gpus * budget.usd_per_gpu_hour, hours, p.step_s, layout))
    in_time = [plan for plan in fitting if plan[1] <= budget.hours]
    affordable = [plan for plan in in_time if plan[0] <= budget.dollars]
    for reason, plans in (("memory", fitting), ("deadline", in_time), ("dollars", affordable)):
        if not plans:
            return {"infeasible": reason}
    dollars, hours, step_s, best = min(affordable, key=lambda plan: plan[0])
    left = budget.gpus - cluster.gpus_per_node
    fallback = min((plan for plan in fitting if plan[3].gpus <= left), key=lambda plan: plan[1], default=[None])
    limits = {"step_s": step_s, "hours": hours, "dollars": dollars}
    return limits | {"plan": best, "fallback": fallback[-1], "tokens_per_s": budget.batch * model.seq_len / step_s}
