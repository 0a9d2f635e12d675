"""The pins: every dependency has one, it satisfies pyproject.toml, and it is what a full install really brings."""

from __future__ import annotations

import importlib.metadata as metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = [Requirement(text) for text in [*PROJECT["dependencies"], *(t for extra in EXTRAS.values() for t in extra)]]


def pins() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][^\s;]*)", line)
        assert match, f"not an exact pin: {line}"
        found[canonicalize_name(match[1])] = Version(match[2])
    assert len(found) == len(lines), "a package is pinned twice"
    return found


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_every_declared_dependency_is_pinned_within_its_range(requirement: Requirement) -> None:
    pinned = pins()
    assert canonicalize_name(requirement.name) in pinned
    assert pinned[canonicalize_name(requirement.name)] in requirement.specifier


def test_everything_a_full_install_brings_is_pinned_to_what_is_installed() -> None:
    pinned = pins()
    wrong = []
    for name in sorted(_closure("lockstep-course", set(EXTRAS)) - {"lockstep-course"}):
        installed = Version(metadata.version(name)).public  # torch's CPU build is 2.13.0+cpu
        if name not in pinned:
            wrong.append(f"{name} {installed} is not pinned")
        elif pinned[name].public != installed:
            wrong.append(f"{name}: pinned {pinned[name]}, installed {installed}")
    assert not wrong, "\n".join(wrong)


def test_torch_is_pinned_without_a_build() -> None:
    """So that the CPU build and the default build both satisfy the pin."""
    assert pins()["torch"].local is None


def _closure(name: str, extras: set[str]) -> set[str]:
    """The names of every installed distribution that `name` with `extras` needs on this machine."""
    seen: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(name), extra) for extra in ["", *extras]]
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        for text in metadata.requires(item[0]) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": item[1]}):
                todo += [(canonicalize_name(needed.name), extra) for extra in ["", *needed.extras]]
    return {name for name, _ in seen}
