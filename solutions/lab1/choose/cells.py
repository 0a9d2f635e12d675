# %% [markdown]
# ## Exercise 4: choose a plan, or say what forbids all of them (about 20 minutes, 14 points)
#
# Difficulty ●●○○
#
# You know what a plan holds, what it sends and where it waits; the planner adds that up for a whole step:
# `planner.predict(model, layout, cluster)`. What it cannot do is decide. Somebody has a budget: GPUs, hours, dollars.
# The answer is one plan with the limits that operators can watch, or, just as useful, **the first limit that forbids
# every plan**. "It does not fit" and "it fits, but not in time" ask for different money.

# %% tags=["setup"]
from autograder.checks.lab1.budget import Budget, dozen, make_cluster
from simulator import planner
from simulator.cluster import Cluster
from simulator.planner import MODELS

# %%
hardware = make_cluster(tflops=312, memory_gib=80, gpus_per_node=8, intra=200, inter=25)
for layout in dozen(MODELS["13b"], gpus=16, batch=128, gpus_per_node=8):
    p = planner.predict(MODELS["13b"], layout, hardware)
    print(f"{p.memory.total / 2**30:6.1f} GiB {p.step_s:6.1f} s on {layout.gpus:2} GPUs  {layout.name}")

# %% [markdown]
# All of these are predicted. Read the table before you go on: which resource is over its budget for the plans that do
# not fit in 80 GiB, and which split brings it down? And what does each split cost in seconds?
#
# ### Your task
#
# Write `choose(model, cluster, budget)`. A `budget` has:
#
# | field | |
# |---|---|
# | `plans` | the layouts to choose from, a dozen |
# | `reserve` | the share of a GPU's memory that must stay free, such as 0.1 |
# | `tokens`, `batch` | so many tokens are trained, in steps of `batch` sequences of `model.seq_len` tokens |
# | `hours`, `dollars` | what the whole training may take |
# | `usd_per_gpu_hour` | price of each GPU *that the plan uses* |
# | `gpus` | how many are there; `cluster.gpus_per_node` of them form a node |
#
# A plan *fits* if `p.memory.total` bytes leave the reserve free in `cluster.gpu.memory_gib` GiB (2**30 bytes). Look at
# the limits in this order: memory, deadline, dollars.
#
# - If no plan fits, return `{"infeasible": "memory"}`. If none of those that fit keeps the hours, `{"infeasible":
#   "deadline"}`; if none of those keeps the dollars, `{"infeasible": "dollars"}`.
# - Else return the cheapest plan that keeps all three, with its limits: `"plan"` (the layout), `"step_s"` (latency),
#   `"hours"`, `"dollars"` (cost), `"tokens_per_s"` (capacity, of the whole job), and `"fallback"`: the layout to run
#   when a node is gone, the *fastest* that fits on the GPUs that are left, whatever it costs, or `None`.
#
# About 20 lines.
#
# ### What is checked
#
# Ten budgets on hardware that nobody sells; hidden cases have other hardware. Each is asked four times: as it is, with
# the plans in another order, with twice the bandwidth, with half the memory. The plan may cost 5 % more than the
# cheapest that brute force finds.
#
# | | points |
# |---|---|
# | whether a plan is possible, and the right reason where none is | 4 |
# | the plan keeps every limit and is the cheapest within 5 % | 4 |
# | another order changes nothing, more bandwidth never costs more, less memory never costs less | 2 |
# | step, hours, dollars, tokens a second of the plan | 2 |
# | the fallback | 2 |


# %%
# exercise: lab1/choose
def choose(model, cluster: Cluster, budget: Budget) -> dict:
    """The cheapest plan of budget.plans with its limits, or {"infeasible": reason}."""
    ### BEGIN SOLUTION
    # stub: # Your code: predict every plan; keep what fits, then what is in time, then what is affordable.
    # stub: raise NotImplementedError("choose is not written yet")
    room = (1 - budget.reserve) * cluster.gpu.memory_gib * 2**30
    steps = budget.tokens / (budget.batch * model.seq_len)
    fitting = []
    for layout in budget.plans:
        p = planner.predict(model, layout, cluster)
        hours = steps * p.step_s / 3600
        if p.memory.total <= room:
            # why: dollars by the GPUs of the plan, not of the budget: half the GPUs may be slower and cheaper.
            fitting.append((hours * layout.gpus * budget.usd_per_gpu_hour, hours, p.step_s, layout))
    # why: each list from the one before. The reason is the first list that is empty, so the order of limits matters.
    in_time = [plan for plan in fitting if plan[1] <= budget.hours]
    affordable = [plan for plan in in_time if plan[0] <= budget.dollars]
    for reason, plans in (("memory", fitting), ("deadline", in_time), ("dollars", affordable)):
        if not plans:
            return {"infeasible": reason}
    dollars, hours, step_s, best = min(affordable, key=lambda plan: plan[0])
    # why: from all that fit, not from the affordable ones. When a node is gone the limits of the plan are gone, too.
    left = budget.gpus - cluster.gpus_per_node
    fallback = min((plan for plan in fitting if plan[3].gpus <= left), key=lambda plan: plan[1], default=[None])
    limits = {"step_s": step_s, "hours": hours, "dollars": dollars}
    return limits | {"plan": best, "fallback": fallback[-1], "tokens_per_s": budget.batch * model.seq_len / step_s}
    ### END SOLUTION


# %%
check("lab1/choose")

# %%
# hint("lab1/choose")
