# exercise: lab2/decision
# finding: latency
# hint: latency
# wrong: takes the speedup for that of each GPU
def decide(
    samples: int,
    one_gpu_per_s: float,
    speedup: float,
    gpus: int,
    dollars_per_gpu_hour: float,
    window_minutes: float,
) -> dict:
    """Latency, cost, capacity and fallback limits of one night."""
    per_s = one_gpu_per_s * speedup * gpus
    minutes = samples / per_s / 60
    return {
        "minutes": minutes,
        "dollars": minutes / 60 * gpus * dollars_per_gpu_hour,
        "capacity_samples": per_s * window_minutes * 60,
        "latest_start_minutes": window_minutes - minutes,
        "falls_back": minutes > window_minutes,
        "alarm_samples_per_s": samples / (window_minutes * 60),
    }
