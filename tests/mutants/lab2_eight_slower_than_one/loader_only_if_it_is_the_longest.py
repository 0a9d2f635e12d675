# exercise: lab2/eight-slower-than-one
# finding: cause
# hint: cause
# wrong: compares the wait for the loader with the compute: a loader that works ahead shows only what is left
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    mine = [e for e in trace.of_rank(0) if e.step == 2]
    load = sum(e.end_ns - e.start_ns for e in mine if e.phase == "load")
    backward = max(e.end_ns for e in mine if e.op == "compute")
    reduces = [e for e in mine if e.op == "all_reduce"]

    if load > reduces[-1].end_ns - backward:
        return "slow-loader"
    largest = max(reduces, key=lambda e: e.bytes)
    if largest.bytes / (largest.end_ns - largest.start_ns) < 20:
        return "slow-link"
    if len(reduces) == 1:
        return "one-bucket"
    return "no-overlap" if reduces[0].issue_ns >= backward else "tiny-batch"
