# exercise: lab2/decision
# right: everything in seconds first
def decide(
    samples: int,
    one_gpu_per_s: float,
    speedup: float,
    gpus: int,
    dollars_per_gpu_hour: float,
    window_minutes: float,
) -> dict:
    """Latency, cost, capacity and fallback limits of one night."""
    seconds, window_s = samples / (speedup * one_gpu_per_s), 60 * window_minutes
    gpu_hours = gpus * seconds / 3600
    answers = {"minutes": seconds / 60, "dollars": gpu_hours * dollars_per_gpu_hour}
    answers["capacity_samples"] = samples * window_s / seconds
    answers |= {"latest_start_minutes": (window_s - seconds) / 60, "alarm_samples_per_s": samples / window_s}
    return answers | {"falls_back": bool(answers["capacity_samples"] < samples)}
