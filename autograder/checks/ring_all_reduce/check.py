"""Running the cases and turning what was seen into parts, points and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

from autograder.checks.ring_all_reduce import judge
from autograder.checks.ring_all_reduce.cases import Case, draw
from autograder.checks.ring_all_reduce.observe import Batch, Seen, batch
from autograder.checks.ring_all_reduce.ranks import run_cases
from autograder.checks.runs import CPU_LIMIT_S, Progress, outcome_finding, outcome_key, replay_line, with_picture
from autograder.checks.student import Assembly
from autograder.course import Exercise
from autograder.results import CheckResult, Finding, Params, Part

if TYPE_CHECKING:
    from simulator import Run

FUNCTION = "ring_all_reduce"
WORK_S = 1e-4  # virtual compute before each call in the runs with a slow rank
SLOW_FACTOR = 20.0
Property = Callable[[Seen], judge.Fault | None]
PROPERTIES: dict[str, tuple[str, Property]] = {
    "value": ("The result is not the sum", judge.wrong_sum),
    "agreement": ("The ranks do not hold the same bits", judge.different_bits),
    "bytes": ("A rank sends more than a ring must", judge.too_many_bytes),
    "hub": ("One rank carries the traffic of the others", judge.hub),
    "input-mutated": ("Something beside the tensor changed", judge.changed),
}
NEEDS_SUM = "not looked at: no world size gave the right sum yet"


class _Check:
    """One check in progress: the batches that ran and the findings by key."""

    def __init__(self, assembly: Assembly, exercise: Exercise, params: Params, progress: Progress) -> None:
        self.assembly, self.exercise, self.params, self.progress = assembly, exercise, params, progress
        self.findings: dict[str, Finding] = {}
        self.notes: dict[str, str] = {}
        self.counts: Counter[int] = Counter()
        self.right: list[Batch] = []  # every sum is right
        self.failed: set[str] = set()

    def simulate(self, cases: list[Case]) -> Run:
        """One run of cases that share world size and slow rank."""
        import simulator

        first = cases[0]
        faults = simulator.FaultPlan()
        if first.slow is not None:
            faults = faults.slow(rank=first.slow, factor=SLOW_FACTOR)
        arrays = [case.inputs() for case in cases]
        inputs = [([(a[r].tobytes(), str(a[r].dtype)) for a in arrays],) for r in range(first.world_size)]
        self.counts[first.world_size] += len(cases)
        work_s = 0.0 if first.slow is None else WORK_S
        return simulator.run(
            run_cases,
            first.world_size,
            args=(self.assembly, FUNCTION, work_s),
            rank_args=inputs,
            faults=faults,
            cpu_limit_s=CPU_LIMIT_S,
            echo=False,
        )

    def world(self, cases: list[Case]) -> bool:
        """Run one world size; False when it makes no sense to go on."""
        w = cases[0].world_size
        self.progress(f"{w} ranks: {len(cases)} cases")
        now = batch(cases, self.simulate(cases))
        self.only_point_to_point(now)
        if not now.completed:
            return self.incomplete(now)
        faults = self.assess("value", [now])
        if not faults:
            self.right.append(now)
        return True

    def incomplete(self, now: Batch) -> bool:
        """Record a run that did not end well, narrowed to one case."""
        self.failed |= {"terminates", "value"}
        key = outcome_key(now.run.outcome)
        if key not in self.findings:
            finding = self.narrowed(now)
            self.findings.setdefault(finding.key, finding)
        return key in ("deadlock", "mismatch", "crash")

    def narrowed(self, now: Batch) -> Finding:
        """The finding of the first case that fails alone; of the whole run if none does."""
        step = now.run.outcome.step
        guess = [now.cases[step]] if step is not None and 0 <= step < len(now.cases) else now.cases[:1]
        if outcome_key(now.run.outcome) != "endless-loop":  # those take seconds each
            for case in guess:
                alone = self.simulate([case])
                if not alone.ok:
                    return self.outcome(alone, case.label, case)
        return self.outcome(now.run, ", ".join(c.label for c in guess), guess[0])

    def outcome(self, run: Run, label: str, case: Case) -> Finding:
        return outcome_finding(run, case.world_size, label, self.replay(case), self.assembly)

    def replay(self, case: Case) -> str:
        return replay_line(self.exercise.id, case.name)

    def only_point_to_point(self, now: Batch) -> None:
        """Any collective is a finding; one that carries data makes the rest meaningless."""
        if not now.collectives:
            return
        self.failed.add("point-to-point-only")
        if any(size for *_, size in now.collectives):
            self.failed.add("carried")
        op, rank, step, _ = next((c for c in now.collectives if c[3]), now.collectives[0])
        case = now.cases[step] if 0 <= step < len(now.cases) else now.cases[0]
        fault = judge.Fault(
            f"rank {rank} called {op}. The exercise is to build the collective from send and recv, so that every byte "
            "on every link is yours to explain.",
            "only send, recv, isend, irecv",
            op,
            rank,
        )
        self.add("point-to-point-only", "A collective was called", case, fault)

    def assess(self, key: str, batches: list[Batch]) -> bool:
        """Apply one property to every case; True if some case fails, and then the first one becomes a finding."""
        title, wrong = PROPERTIES[key]
        failing = [(seen, fault) for b in batches for seen in b.seen if (fault := wrong(seen))]
        if failing:
            self.failed.add(key)
            seen, fault = failing[0]
            if len(failing) > 1:
                more = f" The same happens in {len(failing)} of {sum(len(b.seen) for b in batches)} cases here."
                fault = judge.Fault(fault.text + more, fault.expected, fault.seen, fault.rank)
            self.add(key, title, seen.case, fault)
        return bool(failing)

    def add(self, key: str, title: str, case: Case, fault: judge.Fault) -> None:
        """Make a finding of a fault, with the picture of a run of that case alone."""
        if key in self.findings:
            return
        values = f"{case.length} {case.dtype} values"
        finding = Finding(
            key=key,
            title=title,
            text=f"On {case.world_size} ranks with {values}: {fault.text}",
            expected=fault.expected,
            seen=fault.seen,
            rank=fault.rank,
            world_size=case.world_size,
            case=case.label,
            replay=self.replay(case),
        )
        self.findings[key] = with_picture(finding, self.simulate([case]))

    def slow(self, cases: list[Case]) -> None:
        """Run with one slow rank and compare the number of messages with the run without."""
        normal = {seen.case.name: seen for b in self.right for seen in b.seen}
        self.progress(f"{cases[0].world_size} ranks, rank {cases[0].slow} slow: {len(cases)} cases")
        now = batch(cases, self.simulate(cases))
        if not now.completed:
            self.failed.add("slow-rank")
            said = self.narrowed(now)
            text = f"Without the slow rank all is well. {said.text}"
            self.findings["slow-rank"] = _renamed(said, "slow-rank", "A slow rank breaks it", text)
            return
        for seen in now.seen:
            plain = normal.get(seen.case.name.removesuffix(f"-slow{seen.case.slow}"))
            if fault := _slow_fault(seen, plain):
                self.failed.add("slow-rank")
                self.add("slow-rank", "A slow rank changes what happens", seen.case, fault)
                return

    def parts(self) -> list[Part]:
        """Points part by part: properties of the messages count only where the sum is right."""
        carried = "carried" in self.failed
        parts = []
        for spec in self.exercise.parts:
            note = "not looked at: the sum came from a collective, not from your messages" if carried else ""
            if not carried and spec.key != "value" and not self.right:
                note = NEEDS_SUM
            if spec.key == "point-to-point-only" and carried:
                note = ""
            note = note or self.notes.get(spec.key, "")
            if spec.key in self.failed and not carried:
                note = ""
            passed = spec.key not in self.failed and not note
            parts.append(Part(spec.key, spec.title, passed, spec.points if passed else 0.0, spec.points, note))
        return parts


def _renamed(finding: Finding, key: str, title: str, text: str) -> Finding:
    import msgspec

    return msgspec.structs.replace(finding, key=key, title=title, text=text)


def _slow_fault(seen: Seen, plain: Seen | None) -> judge.Fault | None:
    fault = judge.wrong_sum(seen)
    if fault or plain is None:
        return fault
    for rank, (now, before) in enumerate(zip(seen.messages, plain.messages, strict=True)):
        if now != before:
            text = f"rank {rank} sends and receives {now} messages, without the slow rank {before}."
            return judge.Fault(f"{text} Timing must not decide that.", f"{before} messages", f"{now} messages", rank)
    return None


def run(assembly: Assembly, exercise: Exercise, params: Params, progress: Progress) -> CheckResult:
    """Run the check. Trusted code: student code runs in the ranks of simulator.run only."""
    check = _Check(assembly, exercise, params, progress)
    cases = draw(exercise.id, params)
    going = True
    for (world_size, slow), group in groupby(cases, key=lambda c: (c.world_size, c.slow)):
        if slow is None and going:
            going = check.world(list(group))
        elif slow is not None and going and (params.case or _is_right(check, world_size)):
            check.slow(list(group))
        elif slow is not None:
            check.notes["slow-rank"] = f"not looked at: {world_size} ranks do not give the right sum yet"
    for key in ("agreement", "bytes", "hub", "input-mutated"):
        if "carried" not in check.failed:
            check.assess(key, check.right)
    parts = check.parts()
    points = sum(part.points for part in parts)
    return CheckResult(
        exercise=exercise.id,
        points=points,
        max_points=exercise.points,
        passed=not check.findings and (params.case is not None or points == exercise.points),
        parts=parts,
        findings=_in_order(check, carried="carried" in check.failed),
        cases={str(w): n for w, n in sorted(check.counts.items())},
    )


def _is_right(check: _Check, world_size: int) -> bool:
    return any(b.cases[0].world_size == world_size for b in check.right)


def _in_order(check: _Check, carried: bool) -> list[Finding]:
    """What ends a run first, then the parts in the order of course.yaml; after a collective only that."""
    if carried:
        return [check.findings["point-to-point-only"]]
    parts = [spec.key for spec in check.exercise.parts]
    fatal = [finding for key, finding in check.findings.items() if key not in parts]
    return fatal + [check.findings[key] for key in parts if key in check.findings]
