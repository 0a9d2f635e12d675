# exercise: lab2/eight-slower-than-one
# finding: cause
# hint: cause
# wrong: takes every exposed all-reduce for too small a batch
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    mine = [e for e in trace.of_rank(0) if e.step == 2]
    load = sum(e.end_ns - e.start_ns for e in mine if e.phase == "load")
    reduces = [e for e in mine if e.op == "all_reduce"]

    if load > 0.05 * (reduces[-1].end_ns - mine[0].start_ns):
        return "slow-loader"
    largest = max(reduces, key=lambda e: e.bytes)
    if largest.bytes / (largest.end_ns - largest.start_ns) < 20:
        return "slow-link"
    return "tiny-batch"
