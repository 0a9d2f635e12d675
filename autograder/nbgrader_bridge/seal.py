"""Sealed results: what the grader found for one submission, stored by the trusted side and bound to its bytes.

A seal names the submission (SHA-256 of the file), the grader (SHA-256 of all that decides the points) and the seed
(through the key of its authentication code). If any of them changed, or the sealed file was edited, the seal is stale:
it is refused and the submission is graded again. The same submission, grader and seed give the same bytes.

Limit: the authentication code protects against whoever cannot read the grading seed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import logging
import os
import shlex
from pathlib import Path

import msgspec

from autograder import course, lab_file
from autograder.errors import NotebookFileError, SandboxError
from autograder.grading.host import BROKE_OFF, JobHost
from autograder.nbgrader_bridge import acceptance, regrades
from autograder.nbgrader_bridge.errors import BridgeError, StaleSeal
from autograder.nbgrader_bridge.folder import Cases, CourseFolder
from autograder.nbgrader_bridge.regrades import Regrade
from autograder.results import NOT_GRADED, CheckResult, Finding, NotebookResult, Params, Part

FORMAT = 1
_LOG = logging.getLogger(__name__)


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sealed result. `broken` is true when the grader itself failed; such a seal is never taken as fresh.

    `cases`: whether the hidden cases are those of the class, or the student's own. `accepted`: `acceptance.read`.
    """

    format: int = FORMAT
    student: str
    assignment: str
    submission_sha256: str
    grader_sha256: str
    broken: bool = False
    cases: Cases = "class"
    accepted: dict[str, str] = {}
    result: NotebookResult
    mac: str = ""


def ensure(
    folder: CourseFolder, student: str, assignment: str, host: JobHost, *, again: bool = False
) -> tuple[Seal, Regrade | None]:
    """The fresh seal of a submission: the stored one, or a new one from grading it now; and what that changed.

    Args:
        host: where the submission's code runs.
        again: grade it now in any case.

    Raises:
        BridgeError: the submission or the seed cannot be read, or the grader failed where there was a result before.
        SandboxError: the sandbox cannot be used on this machine.
    """
    if not again:
        with contextlib.suppress(StaleSeal):
            return fresh(folder, student, assignment), None
    before = regrades.before(folder, student, assignment)
    sealed = _grade(folder, student, assignment, host)
    if sealed.broken and before is not None and not before.seal.broken:
        raise BridgeError(f"{student}: the grader itself failed; the result of before stays: please report this.")
    change = regrades.note(folder, before, sealed) if before is not None else None
    return _store(folder, sealed), change


def fresh(folder: CourseFolder, student: str, assignment: str) -> Seal:
    """The stored seal of this submission.

    Raises:
        StaleSeal: there is none, or it does not belong to this submission, grader and seed, or it was edited.
    """
    path = folder.sealed(student, assignment)
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=Seal)
    except FileNotFoundError:
        raise StaleSeal(f"{student}/{assignment} has no sealed result yet.") from None
    except (msgspec.MsgspecError, UnicodeError, OSError) as error:
        raise StaleSeal(f"{path} is not a sealed result: {error}.") from error
    if not hmac.compare_digest(stored.mac, mac(folder.seal_key(), stored)):
        raise StaleSeal(f"{path} was edited, or sealed with another grading seed.")
    identity = (stored.student, stored.assignment, stored.submission_sha256, stored.grader_sha256)
    digest = submission_digest(folder, student, assignment)
    expected = (student, assignment, digest, grader_digest(assignment))
    as_asked = stored.cases == folder.cases and stored.accepted == acceptance.read(folder, student, assignment)
    if stored.broken or not as_asked or identity != expected:
        raise StaleSeal(f"{path} belongs to another version of the submission or of the grader.")
    return stored


def reason(seal: Seal) -> str:
    """Why somebody should look at the submission: it could not be graded, or not to its end. "" if all is well."""
    findings = [finding for exercise in seal.result.exercises for finding in exercise.findings]
    if any(finding.key == "deadline" for finding in findings):
        return f"Stopped at the deadline. If this machine was busy, grade it again: --only {shlex.quote(seal.student)}"
    return next((finding.text for finding in findings if finding.key in (NOT_GRADED, *BROKE_OFF)), "")


def submission_digest(folder: CourseFolder, student: str, assignment: str) -> str:
    """SHA-256 of the submitted file."""
    return hashlib.sha256(_submission(folder, student, assignment)).hexdigest()


def file_digest(folder: CourseFolder, student: str, assignment: str) -> str:
    """SHA-256 of the sealed file."""
    return hashlib.sha256(folder.sealed(student, assignment).read_bytes()).hexdigest()


@functools.cache
def grader_digest(assignment: str) -> str:
    """SHA-256 of what decides the points: the lab in course.yaml, its given code, the checks, grader and simulator."""
    root = course.find_root()
    facts = lab_file.load(root, assignment)
    described = course.load(root)
    digest = hashlib.sha256(msgspec.json.encode([described.lab(assignment), described.grading.hints]))
    digest.update(facts.setup.encode() + b"\0")
    for name, exercise in sorted(facts.exercises.items()):
        digest.update(f"{name}\0{exercise.starter}\0".encode())
    package, simulator = Path(course.__file__).parent, Path(course.__file__).parent.parent / "simulator"
    folders = (package / "checks", package / "grading", package / "sandbox", simulator)
    files = [package / "record.py", *(path for folder in folders for path in folder.rglob("*.py"))]
    for path in sorted(files):
        digest.update(path.relative_to(package.parent).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _submission(folder: CourseFolder, student: str, assignment: str) -> bytes:
    path = folder.submitted(student, assignment) / f"{assignment}.ipynb"
    try:
        return path.read_bytes()
    except OSError as error:
        raise BridgeError(f"The submission {path} cannot be read: {error.strerror}.") from error


def mac(key: bytes, seal: Seal) -> str:
    """The authentication code of a seal."""
    body = msgspec.json.encode(msgspec.structs.replace(seal, mac=""), order="deterministic")
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def _store(folder: CourseFolder, seal: Seal) -> Seal:
    sealed = msgspec.structs.replace(seal, mac=mac(folder.seal_key(), seal))
    text = msgspec.json.format(msgspec.json.encode(sealed, order="deterministic"), indent=2) + b"\n"
    path = folder.sealed(seal.student, seal.assignment)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that an interrupted grading never leaves half a seal.
    part = path.with_suffix(".part")
    part.write_bytes(text)
    os.replace(part, path)
    return sealed


def _grade(folder: CourseFolder, student: str, assignment: str, host: JobHost) -> Seal:
    from autograder.grading import grade_notebook

    data = _submission(folder, student, assignment)
    accepted = acceptance.read(folder, student, assignment)
    broken = False
    try:
        if not data:
            raise NotebookFileError(f"no notebook called {assignment}.ipynb was handed in")
        whose = student if folder.cases == "student" else ""
        params = Params(kind="hidden", seed=folder.seed(), student=whose)
        result = grade_notebook(data, assignment, params, host=host, accepted=accepted)
    except NotebookFileError as error:
        said = str(error)[0].upper() + str(error)[1:].rstrip(".")
        result = nothing(assignment, f"{said}. Hand in {assignment}.ipynb as JupyterLab saves it.")
    except SandboxError:
        raise
    except Exception as error:
        # Ours, not the student's: the batch goes on, and the next grading tries this submission again.
        broken = True
        _LOG.exception("grading %s/%s failed: please report this", student, assignment)
        words = f"The grader itself failed on this notebook ({type(error).__name__}). Your instructor must look at it."
        result = nothing(assignment, words)
    return Seal(
        student=student,
        assignment=assignment,
        submission_sha256=hashlib.sha256(data).hexdigest(),
        grader_sha256=grader_digest(assignment),
        broken=broken,
        cases=folder.cases,
        accepted=accepted,
        result=msgspec.structs.replace(result, notebook=f"{assignment}.ipynb"),
    )


def nothing(assignment: str, reason: str) -> NotebookResult:
    """0 points for every exercise of the lab, with one finding that says `reason`."""
    lab = course.load().lab(assignment)
    finding = Finding(key=NOT_GRADED, title="This notebook could not be graded", text=reason)
    exercises = [
        CheckResult(
            exercise=exercise.id,
            points=0.0,
            max_points=exercise.points,
            passed=False,
            parts=[Part(p.key, p.title, False, 0.0, p.points, note="not looked at") for p in exercise.parts],
            findings=[finding],
            tier=exercise.tier,
        )
        for exercise in lab.exercises
    ]
    return NotebookResult(
        lab=assignment,
        notebook=f"{assignment}.ipynb",
        exercises=exercises,
        notes=[],
        points=0.0,
        max_points=lab.max_points,
    )
