"""YAML into frozen msgspec structs, with errors that an author can act on.

YAML itself accepts a key twice and keeps the last; here that is an error, like a key that nobody reads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from autograder.errors import CourseFileError

T = TypeVar("T")


class _Loader(yaml.SafeLoader):
    """The safe loader, refusing a key that appears twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                said = f"the key {key!r} appears twice"
                raise yaml.constructor.ConstructorError(None, None, said, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(path: Path, kind: type[T], name: str | None = None) -> T:
    """Read ``path`` as ``kind``. Errors name the file (as ``name``), the place in it, and the keys known there."""
    name = name or path.name
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise CourseFileError(f"{name} does not exist") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise CourseFileError(f"{name}:{line}: {error.problem}") from None
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise CourseFileError(f"{name}: {_explain(str(error), kind)}") from None


def _explain(message: str, kind: Any) -> str:
    what, _, place = message.partition(" - at ")
    place = place.strip("`") or "$"
    known = _known_keys(kind, place)
    return f"at {place}: {what[0].lower()}{what[1:]}" + (f" (known keys: {', '.join(known)})" if known else "")


def _known_keys(kind: Any, place: str) -> list[str]:
    """The keys that the struct at ``place`` knows; nothing when the place is not a struct."""
    here: Any = msgspec.inspect.type_info(kind)
    for name, _ in re.findall(r"\.([A-Za-z_]\w*)|(\[[^\]]*\])", place):
        if isinstance(here, msgspec.inspect.UnionType):
            here = next((t for t in here.types if not isinstance(t, msgspec.inspect.NoneType)), here)
        if isinstance(here, msgspec.inspect.StructType) and name:
            here = next((f.type for f in here.fields if f.encode_name == name), None)
        elif isinstance(here, msgspec.inspect.DictType):
            here = here.value_type
        elif isinstance(here, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
            here = here.item_type
    return [f.encode_name for f in here.fields] if isinstance(here, msgspec.inspect.StructType) else []
