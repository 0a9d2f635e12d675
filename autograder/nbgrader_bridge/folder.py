"""The course folder: where nbgrader's folders, the gradebook, the sealed results and the grading seed live.

Everything that grading needs is inside one folder, the exchange too, so that it works for one user without sudo.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autograder.nbgrader_bridge import terminal
from autograder.nbgrader_bridge.errors import BridgeError

CONFIG_NAME = "nbgrader_config.py"
SEED_NAME = "grading_seed"
CASES_NAME = "hidden_cases"  # a file that says whose they are, when it is not the class's
Cases = Literal["class", "student"]

_CONFIG_TEXT = '''"""nbgrader's configuration for this course folder. Written once; your settings go below."""

from pathlib import Path

from autograder.nbgrader_bridge.config import configure

c = get_config()
configure(c, Path(__file__).resolve().parent)

# A late penalty, for example (nbgrader documents the plugin under "late submission plugin"):
# c.AssignLatePenalties.plugin_class = "my_course.late.HalfAPointADay"
'''

# nbgrader puts student names into glob patterns, paths and exchange names that are split at "+".
_IN_A_NAME = " .,_@=-'\u2019"
_MOST_OF_A_NAME_BYTES = 200  # with assignment and time, one name of a file


@dataclass(frozen=True)
class CourseFolder:
    """Paths of one course folder. `root` is absolute."""

    root: Path
    seed_file: Path

    @classmethod
    def at(cls, root: Path | str, seed_file: Path | str | None = None) -> CourseFolder:
        """The folder at `root`, which need not exist yet; `seed_file` replaces the seed kept inside it."""
        absolute = Path(root).resolve()
        return cls(absolute, Path(seed_file).resolve() if seed_file else absolute / SEED_NAME)

    @property
    def exists(self) -> bool:
        """True when this is a course folder already."""
        return (self.root / CONFIG_NAME).is_file()

    def create(self) -> bool:
        """Makes what is missing: folders, configuration, its own seed. Returns whether the course folder is new.

        Raises:
            BridgeError: the folder cannot be written, or holds something else.
        """
        new = not self.exists
        if new and self.root.is_dir() and any(self.root.iterdir()):
            raise BridgeError(
                f"{self.root} is not empty and is not a course folder (it has no {CONFIG_NAME}). "
                "Choose another folder with --course, or an empty one."
            )
        try:
            for name in ("source", "exchange", "cache", "submitted", "sealed"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            if new:
                (self.root / CONFIG_NAME).write_text(_CONFIG_TEXT, encoding="utf-8")
            if self.seed_file == self.root / SEED_NAME:  # a seed kept elsewhere must exist: a typo makes no new one
                self._create_seed()
        except OSError as error:
            raise BridgeError(f"The course folder {self.root} cannot be written: {error.strerror}.") from error
        return new

    def check_writable(self) -> None:
        """Raises BridgeError when grading could not write its results here."""
        for place in (self.root, *(self.root / name for name in ("submitted", "sealed", "autograded", "reports"))):
            if place.is_dir():
                try:
                    with tempfile.TemporaryFile(dir=place):
                        pass
                except OSError as error:
                    raise BridgeError(f"The course folder cannot be written: {place}: {error.strerror}.") from error

    def _create_seed(self) -> None:
        # O_EXCL: an existing seed is never replaced, or results already given could not be explained any more.
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(self.seed_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")

    def seed(self) -> str:
        """The grading seed.

        Raises:
            BridgeError: no seed, or a seed that others can read.
        """
        try:
            text = self.seed_file.read_text(encoding="utf-8").strip()
            mode = self.seed_file.stat().st_mode
        except OSError as error:
            raise BridgeError(f"The grading seed {self.seed_file} cannot be read: {error.strerror}.") from error
        if not text:
            raise BridgeError(f"The grading seed {self.seed_file} is empty. Write one line of random text into it.")
        if mode & 0o077:
            raise BridgeError(
                f"The grading seed {self.seed_file} can be read by other users. Run: chmod 600 {self.seed_file}"
            )
        return text

    def seal_key(self) -> bytes:
        """The key that authenticates sealed results; derived from the seed, which it does not reveal."""
        return _seal_key(self.seed())

    def earlier_seal_keys(self) -> list[bytes]:
        """The keys of seeds that `draw_new_seed` replaced, and of the folder's own one where another is used."""
        own = self.root / SEED_NAME
        paths = [*self._earlier_seeds(), *([own] if own != self.seed_file and own.is_file() else [])]
        return [_seal_key(path.read_text(encoding="utf-8").strip()) for path in paths]

    def draw_new_seed(self) -> None:
        """Replace the seed; the old one stays beside it, so that results already given can be explained.

        Raises:
            BridgeError: the seed is kept elsewhere, or cannot be written.
        """
        if self.seed_file != self.root / SEED_NAME:
            raise BridgeError(
                f"The grading seed is kept in {self.seed_file}: replace it there, or leave out --seed-file."
            )
        try:
            if self.seed_file.exists():
                self.seed_file.rename(self.root / f"{SEED_NAME}.{len(self._earlier_seeds()) + 1}")
            self._create_seed()
        except OSError as error:
            raise BridgeError(f"The grading seed cannot be replaced: {error.strerror}.") from error

    @property
    def cases(self) -> Cases:
        """Whether everybody is graded with the same hidden cases, or each student with their own."""
        path = self.root / CASES_NAME
        return "student" if path.is_file() and path.read_text(encoding="utf-8").strip() == "student" else "class"

    def choose_cases(self, cases: Cases) -> None:
        """Say whose the hidden cases are, from now on; the button in formgrader takes the same.

        Raises:
            BridgeError: the course folder cannot be written.
        """
        if cases == self.cases:
            return
        try:
            (self.root / CASES_NAME).write_text(f"{cases}\n", encoding="utf-8")
        except OSError as error:
            raise BridgeError(f"{self.root / CASES_NAME} cannot be written: {error.strerror}.") from error

    def _earlier_seeds(self) -> list[Path]:
        return sorted(self.root.glob(f"{SEED_NAME}.*"))

    def submitted(self, student: str, assignment: str) -> Path:
        """Folder of one submission, as collected."""
        return self.root / "submitted" / student / assignment

    def autograded(self, student: str, assignment: str) -> Path:
        """Folder of one submission after nbgrader's autograde."""
        return self.root / "autograded" / student / assignment

    def feedback(self, student: str, assignment: str) -> Path:
        """Folder of nbgrader's feedback page for one submission."""
        return self.root / "feedback" / student / assignment

    def without_feedback(self, assignment: str) -> list[str]:
        """Students who handed in and have no feedback page."""
        handed_in = {path.parent.name for path in self.root.glob(f"submitted/*/{assignment}")}
        return sorted(handed_in - {path.parent.name for path in self.root.glob(f"feedback/*/{assignment}")})

    def sealed(self, student: str, assignment: str) -> Path:
        """File of the sealed result of one submission."""
        return self.root / "sealed" / student / f"{assignment}.json"

    def regrades(self, student: str, assignment: str) -> Path:
        """File of what later gradings of one submission changed."""
        return self.root / "sealed" / student / f"{assignment}.regrades.json"

    def accepted(self, student: str, assignment: str) -> Path:
        """File that says which cells of one submission a person has read and accepted."""
        return self.root / "sealed" / student / f"{assignment}.accepted.json"

    def report(self, student: str, assignment: str) -> Path:
        """Page of one submission, written by us right after grading."""
        return self.root / "reports" / student / f"{assignment}.html"

    def released(self, assignment: str) -> Path:
        """Folder of the student version that nbgrader generated."""
        return self.root / "release" / assignment


def _seal_key(seed: str) -> bytes:
    return hmac.digest(seed.encode(), b"lockstep sealed result", hashlib.sha256)


def check_student_name(name: str) -> None:
    """Raises BridgeError when nbgrader cannot carry `name` as a student's id."""
    if len(name.encode(errors="replace")) > _MOST_OF_A_NAME_BYTES:
        raise BridgeError(f"{terminal.name(name)!r} has {len(name)} characters: too long for a student's name.")
    known = (c.isalnum() or c in _IN_A_NAME or unicodedata.category(c).startswith("M") for c in name)
    if not name or not (name[0].isalnum() or name[0] == "_") or name != name.strip() or not all(known):
        raise BridgeError(
            f"{name!r} cannot be a student's name in nbgrader: use letters, digits, spaces, apostrophes and . , _ - @ "
            "= and begin with a letter or a digit."
        )
