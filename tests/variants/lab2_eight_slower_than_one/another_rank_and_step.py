# exercise: lab2/eight-slower-than-one
# right: rank 5, step 1, idle time between events
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    mine = [e for e in trace if e.rank == 5 and e.step == 1]
    begin = next(e.issue_ns for e in mine if e.op == "step")
    forward = min(e.start_ns for e in mine if e.phase == "forward")
    gradients = max(e.end_ns for e in mine if e.op == "compute")
    reduces = sorted((e for e in mine if e.op == "all_reduce"), key=lambda e: e.start_ns)
    whole = reduces[-1].end_ns - begin
    if (forward - begin) / whole > 0.048:
        return "slow-loader"
    if max(e.bytes / (e.end_ns - e.start_ns) for e in reduces) < 40:
        return "slow-link"
    hidden = sum(e.issue_ns < gradients for e in reduces)
    return "tiny-batch" if hidden else "one-bucket" if len(reduces) == 1 else "no-overlap"
