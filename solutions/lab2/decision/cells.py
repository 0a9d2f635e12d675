# %% [markdown]
# ## Decision: the limits of the night (about 5 minutes, 6 points)
#
# Difficulty ●○○○
#
# It is 02:00. The operators ask you for limits that they can watch without you, the product owner for what the night
# costs and what happens if the job is late. Give them a function, because next month's night has other numbers.
#
# ### Your task
#
# Write `decide(...)`, which returns a dictionary with six keys. The night of the brief: 40 million samples; one GPU
# makes 1,400 a second; assume 8 GPUs at 4.5 times one GPU (the target of exercise 4), 2 $ for a GPU and hour (an
# assumption, to calculate with), and a window of 240 minutes.
#
# | key | who watches it | what it is |
# |---|---|---|
# | `minutes` | operators | latency: how long the training takes |
# | `dollars` | product owner | cost of all GPUs while the training runs |
# | `capacity_samples` | product owner | capacity: how many samples the whole window could train |
# | `latest_start_minutes` | operators | fallback: latest start, in minutes after the window opens (or negative) |
# | `falls_back` | product owner | `True` if yesterday's model has to stay even if the training starts at once |
# | `alarm_samples_per_s` | operators | a training that starts at once and is slower than this will be late |
#
# ### What is checked
#
# Three nights, one of which cannot be made; the hidden ones are drawn. Do not round. One point each, two for the
# fallback (both keys).

# %%
# exercise: lab2/decision
def decide(
    samples: int,
    one_gpu_per_s: float,  # samples a second of one GPU
    speedup: float,  # of all GPUs together, times one GPU
    gpus: int,
    dollars_per_gpu_hour: float,
    window_minutes: float,
) -> dict:
    """Latency, cost, capacity and fallback limits of one night."""
    ### BEGIN SOLUTION
    # stub: # Your code: one line for each key.
    # stub: raise NotImplementedError("decide is not written yet")
    per_s = one_gpu_per_s * speedup  # why: not times the GPUs; the speedup says what they make together
    minutes = samples / per_s / 60
    return {
        "minutes": minutes,
        # why: all GPUs are paid for, also for what they wait. A better speedup is cheaper.
        "dollars": minutes / 60 * gpus * dollars_per_gpu_hour,
        "capacity_samples": per_s * window_minutes * 60,
        "latest_start_minutes": window_minutes - minutes,
        "falls_back": minutes > window_minutes,
        # why: no speedup in it. The alarm asks what the night needs, whatever the job should make.
        "alarm_samples_per_s": samples / (window_minutes * 60),
    }
    ### END SOLUTION


# %%
check("lab2/decision")

# %%
# hint("lab2/decision")

# %% [markdown]
# For the night of the brief: about 106 minutes and 28 $, and the job may start as late as 134 minutes after 01:30.
# Later than that the night falls back to yesterday's model: a decision of the product owner, made before the night and
# not in it. Below 2,778 samples a second, about twice one GPU, not even a start at 01:30 is early enough: an alarm at
# that rate tells it after a minute of training instead of at 05:30. And the job of the brief, at 1,100, had no chance.
