"""Running a check's cases and turning what was seen into findings, parts and points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Generic

import msgspec

import simulator
from autograder.checks import on_ranks
from autograder.checks.cases import C
from autograder.checks.check import Check, Property
from autograder.checks.runs import Progress, outcome_finding, outcome_key, replay_line, with_picture
from autograder.checks.seen import Fault, R, Seen
from autograder.checks.student import Assembly
from autograder.course import Exercise
from autograder.results import CheckResult, Finding, Params, Part
from simulator import Run

# The same in every case, or slow to see again: nothing more is run after one of these.
_ENDS_THE_CHECK = ("unfinished", "missing", "forbidden", "name-only-in-kernel", "endless-loop")
_NOT_LOOKED_AT = "not looked at: "


class Engine(Generic[C, R]):
    """One check in progress."""

    def __init__(
        self, check: Check[C, R], assembly: Assembly, exercise: Exercise, params: Params, progress: Progress
    ) -> None:
        self.check, self.assembly, self.exercise = check, assembly, exercise
        self.params, self.progress = params, progress
        self.cases = check.cases(exercise.id, params)
        self.findings: dict[str, Finding] = {}
        self.lost: set[str] = set()  # keys of parts
        self.seen: list[Seen[C, R]] = []  # of runs that completed
        self.wrong: set[int | str] = set()  # kin (see _kin) with a plain case that is not right
        self.counts: Counter[int] = Counter()
        self.skipped_stress = self.fatal = False

    def result(self) -> CheckResult:
        """Run everything and say what it is worth."""
        for group in self._groups():
            if not self._look_at(group) or self._found(self.params.until):
                break
        if not self.fatal:
            self._assess_the_rest()
        parts = [self._part(spec.key, spec.title, spec.points) for spec in self.exercise.parts]
        points = sum(part.points for part in parts)
        return CheckResult(
            exercise=self.exercise.id,
            points=points,
            max_points=self.exercise.points,
            passed=not self.findings and (self.params.case is not None or points == self.exercise.points),
            parts=parts,
            findings=self._in_order(),
            tier=self.exercise.tier,
            cases={str(w): n for w, n in sorted(self.counts.items())},
        )

    def _assess_the_rest(self) -> None:
        for held in (p for p in self.check.properties if not p.first and not p.always):
            if held.after not in self.findings:
                self._assess(held, self._right(held))

    def _found(self, key: str) -> bool:
        """Whether the one finding that is looked for is there; with none, never."""
        if key and not self.fatal and any(p.key == key and not p.first for p in self.check.properties):
            self._assess_the_rest()
        return key in self.findings

    def _kin(self, case: C) -> int | str:
        """What is right or wrong together: all cases of a world size; a function without ranks in each case alone."""
        return case.world_size if self.check.needs_ranks else case.name

    def _right(self, held: Property[C, R] | None = None) -> list[Seen[C, R]]:
        """The plain cases whose kin are all right: the rest is judged by these; of ``held``, those that can show it."""
        right = [s for s in self.seen if self._kin(s.case) not in self.wrong and not self.check.under(s.case)]
        return [s for s in right if held is None or held.about(s.case)]

    def _groups(self) -> Iterator[list[C]]:
        """Cases that share a run, in order; each alone unless the check is batched."""
        if not self.check.batched:
            yield from ([case] for case in self.cases)
            return
        check = self.check
        for _, group in groupby(self.cases, key=lambda c: (c.world_size, str(check.options(c)), check.under(c))):
            yield list(group)

    def _look_at(self, cases: list[C], *, again: bool = False) -> bool:
        """Run some cases and judge them; False when nothing more should be run."""
        under = self.check.under(cases[0])
        if under and self.findings and self.params.case is None:
            self.skipped_stress = True
            return True
        done, w = sum(self.counts.values()), cases[0].world_size
        ranks = f"{w} ranks: " if self.check.needs_ranks else ""
        self.progress(f"{ranks}case {done + (0 if again else len(cases))} of {len(self.cases)}")
        run = self._simulate(cases, again=again)
        now = [self._see(case, k, run, alone=len(cases) == 1) for k, case in enumerate(cases)]
        for held in (p for p in self.check.properties if p.always):
            self._assess(held, now)
        if self.fatal:
            return False
        if run.ok and not any(s.said == [] for s in now):
            self._judge(now)
            return True
        if len(cases) > 1 and not self.check.needs_ranks and not self._ends(run):
            found = len(self.findings)
            more = [self._look_at([case], again=True) for case in cases]  # what breaks one case says nothing of others
            if len(self.findings) > found:
                return all(more)
        return self._incomplete(cases, run)

    def _ends(self, run: Run) -> bool:
        """Whether the run ended in a way that other cases would only repeat."""
        return not run.ok and outcome_key(run.outcome) in _ENDS_THE_CHECK

    def _simulate(self, cases: list[C], *, again: bool = False) -> Run:
        self.counts[cases[0].world_size] += 0 if again else len(cases)
        check = self.check
        fields = [msgspec.to_builtins(case) for case in cases]
        arguments = (self.assembly, self.exercise.forbidden, self.exercise.defines, check.on_rank, check.case, fields)
        return simulator.run(
            on_ranks.run_cases,
            cases[0].world_size,
            args=(*arguments, check.max_operations),
            cpu_limit_s=check.cpu_limit_s,
            echo=False,
            **check.options(cases[0]),
        )

    def _see(self, case: C, k: int, run: Run, *, alone: bool) -> Seen[C, R]:
        events = [e for e in run.trace.events if alone or e.step == k]
        said: list[R] = []
        if run.ok:
            try:
                said = [msgspec.convert(result[k], self.check.said) for result in run.results]
            except (msgspec.ValidationError, TypeError, IndexError, KeyError):
                said = []
        return Seen(case, run, said, events, self.seen)

    def _judge(self, now: list[Seen[C, R]]) -> None:
        for seen in now:
            under = self.check.under(seen.case)
            failing = [p for p in self.check.properties if p.first and self._assess(p, [seen])]
            if failing and not under:
                self.wrong.add(self._kin(seen.case))
            elif under and not failing:
                for held in (p for p in self.check.properties if p.key == under[0]):
                    self._assess(held, [seen])
            self.seen.append(seen)

    def _assess(self, held: Property[C, R], cases: list[Seen[C, R]]) -> bool:
        """Apply one property to every case; True if some case fails, and then the first one becomes a finding."""
        cases = [seen for seen in cases if held.about(seen.case)]
        failing = [(seen, fault) for seen in cases if (fault := held.wrong(seen))]
        if failing:
            seen, fault = failing[0]
            more = f" The same in {len(failing)} of {len(cases)} cases here." if len(failing) > 1 else ""
            self._add(held, seen, fault, more)
        return bool(failing)

    def _add(self, held: Property[C, R], seen: Seen[C, R], fault: Fault, more: str) -> None:
        key, title = self.check.under(seen.case) or (held.key, held.title)
        self.lost.add(key if self.check.under(seen.case) else held.loses)
        self.fatal = self.fatal or fault.fatal
        if key in self.findings:
            return
        finding = Finding(
            key=key,
            title=title,
            text=f"{self._where(seen.case)}: {fault.text}{more}",
            expected=fault.expected,
            seen=fault.seen,
            rank=fault.rank,
            step=fault.step,
            world_size=seen.case.world_size,
            case=seen.case.label,
            replay=replay_line(self.exercise.id, seen.case.name),
        )
        self.findings[key] = finding
        if self.check.needs_ranks and held.rests_on != "reported":  # a timeline says nothing about values
            alone = self._simulate([seen.case], again=True) if self.check.batched else seen.run
            self.findings[key] = with_picture(finding, alone)

    def _incomplete(self, cases: list[C], run: Run) -> bool:
        """Record a run that did not end well; False when nothing more should be run."""
        under = self.check.under(cases[0])
        firsts = {p.loses for p in self.check.properties if p.first}
        endings = {p.key for p in self.exercise.parts if p.key == self.check.endings}
        everything = {p.key for p in self.exercise.parts}
        self.lost |= {under[0]} if under else (firsts | endings or everything)
        self.wrong |= set() if under else {self._kin(case) for case in cases}
        finding = self._narrowed(cases, run)
        if under:
            text = f"In the plain cases nothing like this is seen. {finding.text}"
            finding = msgspec.structs.replace(finding, key=under[0], title=under[1], text=text)
        self.findings.setdefault(finding.key, finding)
        return finding.key not in _ENDS_THE_CHECK

    def _narrowed(self, cases: list[C], run: Run) -> Finding:
        """The finding of the first case that fails alone; of the whole run if none does."""
        step = run.outcome.step
        case = cases[step] if step is not None and 0 <= step < len(cases) else cases[0]
        if not run.ok and len(cases) > 1 and outcome_key(run.outcome) != "endless-loop":  # those take seconds each
            alone = self._simulate([case], again=True)
            run = run if alone.ok else alone
        if run.inconclusive and run.outcome.name == "Completed":
            text = f"{self._where(case)}: the ranks returned before {'; '.join(run.not_fired)} could act."
            return Finding(key="crash", title="The planned fault never acted", text=text)
        if run.ok:
            text = f"{self._where(case)}: a rank returned nothing that the check can use."
            return Finding(key="crash", title="A rank returned no usable result", text=text)
        replay = replay_line(self.exercise.id, case.name)
        return outcome_finding(
            run, self._where(case), case.label, replay, self.assembly, with_ranks=self.check.needs_ranks
        )

    def _where(self, case: C) -> str:
        ranks, label = f"On {case.world_size} ranks", f" ({case.label})" if case.label else ""
        return f"{ranks}{label}" if self.check.needs_ranks else f"With {case.label or 'any input'}"

    def _part(self, key: str, title: str, points: float) -> Part:
        """A part counts where its property was looked at and held."""
        note = ""
        asked = [held for held in self.check.properties if held.loses == key]
        if key in self.lost:
            pass
        elif self.fatal:
            note = _NOT_LOOKED_AT + "what was found first decides"
        elif self.wrong and not (all(self._right(held) for held in asked) and self._right()):
            ranks = "no number of ranks gives the right result yet"
            note = _NOT_LOOKED_AT + (ranks if self.check.needs_ranks else "the result is not right yet")
        elif before := next((held.after for held in asked if held.after in self.lost), ""):
            note = f"{_NOT_LOOKED_AT}{self._title(before)!r} comes first"
        elif key in self.check.stress_keys and self.skipped_stress:
            note = _NOT_LOOKED_AT + "the plain cases come first"
        passed = key not in self.lost and not note
        return Part(key, title, passed, points if passed else 0.0, points, note)

    def _title(self, key: str) -> str:
        return next((spec.title for spec in self.exercise.parts if spec.key == key), key)

    def _in_order(self) -> list[Finding]:
        """What ends a run first, then the properties in their order; after a fatal one only that."""
        keys = self.check.own_keys
        fatal = [f for f in self.findings.values() if f.key not in keys]
        said = fatal + [self.findings[key] for key in keys if key in self.findings]
        return said[:1] if self.fatal else said
