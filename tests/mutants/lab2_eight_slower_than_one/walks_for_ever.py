# exercise: lab2/eight-slower-than-one
# finding: endless-loop
# hint: endless-loop
# wrong: looks for a second all-reduce that is not there
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    mine = [e for e in trace.of_rank(0) if e.step == 2]
    load = sum(e.end_ns - e.start_ns for e in mine if e.phase == "load")
    backward = max(e.end_ns for e in mine if e.op == "compute")
    reduces = [e for e in mine if e.op == "all_reduce"]

    if load > 0.05 * (reduces[-1].end_ns - mine[0].start_ns):
        return "slow-loader"
    largest, k = reduces[0], 0
    while reduces[k] is not reduces[-1] or len(reduces) == 1:
        k = (k + 1) % len(reduces)
        largest = max(largest, reduces[k], key=lambda e: e.bytes)
    if largest.bytes / (largest.end_ns - largest.start_ns) < 20:
        return "slow-link"
    if len(reduces) == 1:
        return "one-bucket"
    return "no-overlap" if reduces[0].issue_ns >= backward else "tiny-batch"
