# exercise: lab2/eight-slower-than-one
# finding: cause
# hint: cause
# wrong: prints the cause
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    print("slow-link")
