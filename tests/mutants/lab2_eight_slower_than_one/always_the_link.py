# exercise: lab2/eight-slower-than-one
# finding: cause
# hint: cause
# wrong: blames the network, as most people do
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    return "slow-link"
