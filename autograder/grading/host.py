"""The asking side of the job process: start it, ask, stop it with all it started when the deadline passes.

One host serves many checks and stays warm between them, so that a second check costs a second and not four. The
notebook keeps one a kernel; the grader takes a fresh one for every submission.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from autograder.course import Exercise
from autograder.errors import CheckJobError, LabError
from autograder.grading.job import Answer, Request
from autograder.results import CheckResult, Finding, Part
from autograder.sandbox import bubblewrap, processes

Progress = Callable[[str], None]
Where = Literal["beside", "bubblewrap", "limits"]
BROKE_OFF = ("broke-off", "used-up")  # keys of findings, too: somebody should look at such a submission
START_LIMIT_S = 300.0
PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent


class JobHost:
    """A job process, started at the first request and again after it had to be stopped. Use as a context manager.

    `where` its ranks run: "beside" it, which is for one's own code, or in a sandbox ("bubblewrap", "limits").
    """

    def __init__(self, where: Where = "beside") -> None:
        self._where = where
        self._interrupted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._pending = b""

    def __enter__(self) -> JobHost:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the job while there is one."""
        return self._process.pid if self._process else None

    def check(self, request: Request, deadline_s: float, progress: Progress) -> CheckResult:
        """Run one check; past ``deadline_s`` of wall time everything is killed and the result says so.

        The clock starts when the job is ready: a busy machine that is slow to start costs the student nothing.
        """
        try:
            if self._interrupted:
                raise KeyboardInterrupt
            self._get_ready(progress)
            return self._ask(request, time.monotonic() + deadline_s, progress)
        except BaseException as error:  # also KeyboardInterrupt: a half-answered job is of no use to the next request
            if isinstance(error, CheckJobError) or not isinstance(error, LabError):
                self.close()
            if self._interrupted:
                raise KeyboardInterrupt from None
            raise

    def _get_ready(self, progress: Progress) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        if self._where != "beside":
            bubblewrap.require(self._where)
        progress("starting the simulator")
        self._start()
        if self._line(time.monotonic() + START_LIMIT_S) is None:
            raise CheckJobError(f"the simulator did not start within {START_LIMIT_S:g} s: run lockstep doctor")

    def _ask(self, request: Request, until: float, progress: Progress) -> CheckResult:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
        doing = ""
        while True:
            line = self._line(until)
            if line is None:
                self.close()
                return _past_deadline(request, doing)
            answer = _decode(line)
            if answer.token != request.token:
                continue
            if answer.result is not None:
                return answer.result
            if answer.kind in BROKE_OFF:
                return _broke_off(request, answer)
            if answer.error:
                raise LabError(answer.error) if answer.kind == "user" else CheckJobError(_broke(answer.error))
            doing = answer.progress
            progress(doing)

    def _start(self) -> None:
        answers, theirs = os.pipe()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(_python_path()), "PYTHONHASHSEED": "0"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "autograder.grading.job", self._where, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs,),
                start_new_session=True,
                env=environment,
            )
        finally:
            os.close(theirs)
        self._answers, self._pending = answers, b""

    def _line(self, until: float) -> bytes | None:
        """The next line of the job, or None when the deadline passes. CheckJobError if the job is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, until - time.monotonic())):
                    return None
                data = os.read(self._answers, 1 << 16)
                if not data:
                    raise CheckJobError("the process that runs the check ended without an answer: run the check again")
                self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def interrupt(self) -> None:
        """From another thread: the check that runs ends with KeyboardInterrupt, and so does any later one."""
        self._interrupted = True
        process = self._process
        if process is not None:
            processes.kill_tree(process.pid)

    def close(self) -> None:
        """Kill the job and everything below it; nothing of it is left when this returns."""
        process, self._process = self._process, None
        if process is not None:
            processes.kill_tree(process.pid)
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
            os.close(self._answers)


def _decode(line: bytes) -> Answer:
    """A line of the job; one that is not an Answer has no token, so nobody believes it."""
    try:
        return msgspec.json.decode(line, type=Answer)
    except msgspec.MsgspecError:
        return Answer()


def _python_path() -> list[str]:
    """Where the child finds this package: never the folder of a submission."""
    return [str(PACKAGE_ROOT)]


def _broke(details: str) -> str:
    return f"the check itself broke; this is a fault of the course, please report it.\n{details}"


def _past_deadline(request: Request, doing: str) -> CheckResult:
    text = (
        f"The check did not come to an end ({doing}) and was stopped with everything it had started. "
        "A rank that sleeps or waits for input never returns; remove that."
    )
    finding = Finding(key="deadline", title="Stopped at the deadline", text=text, expected="every rank returns")
    return zero(request.exercise, finding, "stopped at the deadline")


def _broke_off(request: Request, answer: Answer) -> CheckResult:
    """The result where a student's processes did not let a run come to its end."""
    if answer.kind == "used-up":
        title, text = "Your code took too much", f"Your code was stopped: {answer.error}. Use less."
    else:
        title = "The check broke off"
        text = (
            f"The processes that run your code ended, or said something that no rank says, so nothing could be checked "
            f"({answer.error}). Code of an exercise must leave the processes of the simulator alone."
        )
    return zero(request.exercise, Finding(key=answer.kind, title=title, text=text), "not looked at")


def zero(exercise: Exercise, finding: Finding, note: str) -> CheckResult:
    """No points, for one reason; `note` stands at every part."""
    return CheckResult(
        exercise=exercise.id,
        points=0.0,
        max_points=exercise.points,
        passed=False,
        parts=[Part(p.key, p.title, False, 0.0, p.points, note) for p in exercise.parts],
        findings=[finding],
        tier=exercise.tier,
    )
