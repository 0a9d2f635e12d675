# exercise: lab2/decision
# right: as shares of the window, in a dict subclass
def decide(
    samples: int,
    one_gpu_per_s: float,
    speedup: float,
    gpus: int,
    dollars_per_gpu_hour: float,
    window_minutes: float,
) -> dict:
    """Latency, cost, capacity and fallback limits of one night."""
    from collections import OrderedDict

    alarm = samples / window_minutes / 60
    share = alarm / (one_gpu_per_s * speedup)
    return OrderedDict(
        alarm_samples_per_s=alarm,
        minutes=share * window_minutes,
        latest_start_minutes=(1 - share) * window_minutes,
        falls_back=int(share > 1),
        capacity_samples=samples / share,
        dollars=share * window_minutes / 60 * dollars_per_gpu_hour * gpus,
    )
