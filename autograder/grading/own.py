"""Attributes that a cell's own classes define, and whether `self` can be trusted.

They may be called as the cell likes, also like something of the simulator's, as long as `self` in a method can only be
an object of the cell: a method that is called with one of the simulator's objects would reach the attribute there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PLAIN_DECORATORS = frozenset({"property", "classmethod", "dataclass", "no_grad", "inference_mode", "contextmanager"})
_PLAIN_DECORATORS |= {"cache", "cached_property", "abstractmethod", "setter", "enable_grad", "overload"}


def own_attributes(tree: ast.AST) -> tuple[frozenset[str], bool]:
    """Methods, fields and what is set on `self`; and whether `self` is always an object of the cell's classes."""
    found = set()
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for each in classes:
        found |= {part.name for part in each.body if isinstance(part, ast.FunctionDef)} | _bound(each)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found.add(node.attr)
    return frozenset(found), not any(_strange(tree, classes))


def is_self(node: ast.AST | None) -> bool:
    """Whether an expression is the name `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def _bound(node: ast.ClassDef) -> set[str]:
    """Fields in the body of a class."""
    targets = [part for statement in node.body for part in ast.iter_child_nodes(statement)]
    return {part.id for part in targets if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _strange(tree: ast.AST, classes: list[ast.ClassDef]) -> Iterator[bool]:
    """True for everything by which `self` could be another object."""
    methods = [part for node in classes for part in node.body if isinstance(part, ast.FunctionDef)]
    firsts = {id(method.args.args[0]) for method in methods if method.args.args}
    known, called = {node.name for node in classes}, set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg == "self" and id(node) not in firsts
        elif is_self(node):
            yield not isinstance(getattr(node, "ctx", None), ast.Load)
        elif isinstance(node, ast.Call):
            called |= {id(node.func), *map(id, node.args[1:] if _name(node.func) == "isinstance" else ())}
        elif isinstance(node, ast.ClassDef):
            called |= {id(base) for base in node.bases}
        yield any(getattr(node, field, None) == "self" for field in ("name", "asname", "rest"))
    for method in methods:
        yield not all(_name(decorator) in _PLAIN_DECORATORS for decorator in method.decorator_list)
    for node in ast.walk(tree):  # a class or a method as a value: its functions could be called with any object
        in_known = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known
        yield in_known and id(node) not in called
        yield isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and _name(node.value.func) == "type"
    names = {method.name for method in methods}
    for statement in (part for node in classes for part in node.body if not isinstance(part, ast.FunctionDef)):
        yield any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(statement))


def _name(node: ast.AST) -> str:
    """The last word of a function that is called or decorates."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
