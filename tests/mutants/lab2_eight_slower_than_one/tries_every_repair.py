# exercise: lab2/eight-slower-than-one
# finding: forbidden
# hint: none
# wrong: asks the model in place of the trace
import simulator


def find_cause(trace: simulator.Trace) -> str:
    """The cause whose repair helps this job now: a word of the table above."""
    from autograder.checks.lab2 import jobs

    return max(jobs.CAUSES, key=lambda c: jobs.speedup(jobs.Model(), jobs.Job()))
