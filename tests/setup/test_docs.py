"""What the documents promise exists: the files they link to, the commands and the make targets they name."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from autograder.cli import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def code(document: Path) -> str:
    """Everything that a document sets as code."""
    text = document.read_text()
    fenced = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    .*$", text, re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", text)
    return "\n".join([*fenced, *indented, *spans])


def commands(group: click.Group, path: str = "lockstep") -> set[str]:
    """Every command line that exists, without its arguments."""
    context = click.Context(group)
    found = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.add(f"{path} {name}")
        if isinstance(command, click.Group):
            found |= commands(command, f"{path} {name}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    missing = [t for t in targets if not t.startswith(("http:", "https:")) and not (document.parent / t).exists()]
    assert not missing


def test_the_commands_in_the_documents_exist() -> None:
    existing = commands(cli)
    named = {match for path in DOCUMENTS for match in re.findall(r"\blockstep (?:nbgrader )?[a-z][a-z-]+", code(path))}
    assert named, "the pattern finds nothing"
    assert named - existing == set()


def test_the_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        match for path in DOCUMENTS for match in re.findall(r"^ *(?:\w+=1 )?make ([a-z]+)", code(path), re.MULTILINE)
    }
    assert {"start", "test"} <= named <= targets
