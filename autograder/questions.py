"""Checkpoint questions: solutions/<lab>/questions.yaml, and what a student's letter is answered with.

A wrong option says why it tempts and where it goes wrong, and links to the section that settles it. Nothing is graded.
"""

from __future__ import annotations

import string
from pathlib import Path

import msgspec

from autograder import strict_yaml
from autograder.exercise import NAME

OPTIONS = (3, 5)


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer; ``why`` says why it is right, or why it tempts and where it goes wrong."""

    text: str
    why: str
    right: bool = False


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``section`` is the heading in the lab's notebook that settles the question; Markdown elsewhere."""

    question: str
    section: str
    options: tuple[Option, ...]

    def letters(self) -> dict[str, Option]:
        """The options by their letter: A, B, ..."""
        return dict(zip(string.ascii_uppercase, self.options, strict=False))


def load_yaml(path: Path, name: str) -> dict[str, Question]:
    """Read a questions file, question id -> question; none where there is no file. CourseFileError says where."""
    return strict_yaml.load(path, dict[str, Question], name) if path.is_file() else {}


def problems(questions: dict[str, Question], headings: set[str]) -> list[str]:
    """What is wrong with the questions of a lab whose notebook has these headings."""
    found = []
    low, high = OPTIONS
    for key, question in questions.items():
        if not NAME.fullmatch(key):
            found.append(f"question id {key!r}: lower-case letters, digits and single hyphens")
        if not low <= len(question.options) <= high:
            found.append(f"{key} has {len(question.options)} options, a question has {low} to {high}")
        if sum(option.right for option in question.options) != 1:
            found.append(f"{key}: exactly one option must be right")
        if not all(text.strip() for o in question.options for text in (o.text, o.why)):
            found.append(f"{key}: every option needs a text and a why")
        if question.section not in headings:
            found.append(f"{key}: the lab has no heading {question.section!r}")
    return found


def cell_text(question: Question) -> str:
    """The question and its options as Markdown."""
    options = "\n".join(f"- **{letter}.** {option.text.strip()}" for letter, option in question.letters().items())
    return f"{question.question.strip()}\n\n{options}"


def anchor(heading: str) -> str:
    """The link to a heading within a notebook, as JupyterLab makes it: spaces become hyphens."""
    return "#" + heading.strip().replace(" ", "-")


def reply(question: Question, letter: str) -> tuple[bool, str]:
    """Whether the letter is right, and what to say, as Markdown. An empty or unknown letter is asked for again."""
    letters = question.letters()
    chosen = letters.get(letter.strip().upper())
    if chosen is None:
        return False, f"Write one of the letters {', '.join(letters)} between the quotes and run the cell."
    if chosen.right:
        return True, f"**Right.** {chosen.why.strip()}"
    link = f"Read [{question.section}]({anchor(question.section)}) again and choose anew."
    return False, f"**Not this one.** {chosen.why.strip()}\n\n{link}"
