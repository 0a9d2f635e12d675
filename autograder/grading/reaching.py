"""What an exercise cell uses that its exercise does not ask for: its points wait until a person has read it.

A rank's process is the student's: who rewrites the simulator in it can announce messages that were never sent, and
ranks can talk by files and sockets that nobody counts. Both need a name that `allowed` does not let in. The cell is
read, not run: names are followed from imports through attributes, and whatever could look up a name that stands nowhere
in the text (a computed `getattr`, `str.format` of a variable, a class made by `type`) is told, too.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import symtable
from pathlib import Path
from typing import NamedTuple

import simulator
from autograder.checks import names
from autograder.grading import allowed
from autograder.grading.own import is_self, own_attributes

_OURS = ("simulator", "autograder")
_GIVEN_FROM = ("simulator", "simulator.planner", "simulator.cluster")
_WRITABLE = frozenset({"grad", "data", "requires_grad"})
_BASES = re.compile(
    r"torch\.(nn\.\w+|autograd\.Function|optim\.\w+|utils\.data\.\w+)|(typing|collections(\.abc)?|contextlib)\.\w+"
    r"|object|dict|list|tuple|int|float|str|\w*(Error|Exception)"
)
_DUNDER = re.compile(r"__(?!main__)\w+__|\{[^{}]*[.\[]_")  # in a text; the second: a private field of str.format
_BY_NAME = {"getattr": False, "hasattr": False, "setattr": True, "delattr": True}  # whether it writes
_USES = re.compile(r"^# uses: (.+)$", re.MULTILINE)  # in given code: names that a solution may need besides
_EMPTY = symtable.symtable("", "cell", "exec")


class _Given(NamedTuple):
    """What setup and starter use: it is the exercise's own."""

    modules: dict[str, str]  # name in the code -> dotted module
    objects: dict[str, str]  # name in the code -> what else was imported under it
    names: frozenset[str]  # names, dotted ones too, and attributes
    texts: frozenset[str]


_NO_GIVEN = _Given({}, {}, frozenset(), frozenset())


def reaches(source: str, *given: str) -> dict[str, int]:
    """What in the cell `source` reaches beyond an exercise, with the first line where it stands, in that order.

    Args:
        given: setup and starter code of the exercise: what stands there is the exercise's own.
    """
    try:
        reader = _Reader(names.parse(source), symtable.symtable(source, "cell", "exec"), _read_given(given))
        return dict(sorted(reader.found.items(), key=lambda item: item[1]))
    except (SyntaxError, ValueError):
        return {}  # such a cell does not run
    except (RecursionError, MemoryError):
        return {"code that is nested too deeply to be read": 1}


@functools.lru_cache(maxsize=64)
def _read_given(given: tuple[str, ...]) -> _Given:
    trees = [tree for tree in map(names.tree_of, given) if tree]
    reader = _Reader(ast.Module([], []), _EMPTY, _NO_GIVEN)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            reader.visit(node)
    found = {*reader.modules.values(), *reader.objects.values()}
    found |= {name.strip() for text in given for line in _USES.findall(text) for name in line.split(",")}
    found |= {reader.dotted(node) for node in nodes if isinstance(node, ast.Attribute)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    found |= {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return _Given(reader.modules, reader.objects, frozenset(found), frozenset(texts))


def _builtins(table: symtable.SymbolTable) -> frozenset[str]:
    """Names that a scope takes from outside of the cell, and that are built in but not allowed."""
    outside = table.get_type() in ("module", "class")
    used = [symbol for symbol in table.get_symbols() if symbol.is_referenced() and (outside or symbol.is_global())]
    found = frozenset(symbol.get_name() for symbol in used if not allowed.is_builtin(symbol.get_name()))
    return found.union(*map(_builtins, table.get_children()))


@functools.cache
def _internals() -> frozenset[str]:
    """Attributes that the simulator's rank side uses: a cell's own may not be called alike, or one could be taken."""
    folder = Path(simulator.__file__).parent / "rank"
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    return frozenset(re.findall(r"\.([A-Za-z_]\w*)", text)) | {"_C", "_get_backend", "_store", "_typed_storage"}


def _bound_names(node: ast.AST) -> list[str]:
    """Names that stand in a node as a text: `except E as NAME`, `case NAME`, `import x as NAME`, arguments, keywords,
    classes, whatever syntax comes. Not those that have a visitor of their own.
    """
    if isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.FunctionDef | ast.MatchClass | ast.ImportFrom):
        return []
    parts = [part for _, value in ast.iter_fields(node) for part in (value if isinstance(value, list) else [value])]
    return [part for part in parts if isinstance(part, str)]


def _is_file(dotted: str) -> bool:
    """Whether a dotted name is a module, without importing anything of it."""
    first, *rest = dotted.split(".")
    spec = importlib.util.find_spec(first) if first.isidentifier() else None
    roots = [Path(place, *rest) for place in (spec.submodule_search_locations or [] if spec else [])]
    return any(root.is_dir() or root.with_suffix(".py").is_file() for root in roots)


class _Reader(ast.NodeVisitor):
    """Goes through a cell. `found`: what reaches beyond, and its first line."""

    def __init__(self, tree: ast.AST, table: symtable.SymbolTable, given: _Given) -> None:
        self._given, self._builtin = given, _builtins(table) - given.names
        self.modules, self.objects = dict(given.modules), dict(given.objects)
        self.found: dict[str, int] = {}
        self._is_given = given is _NO_GIVEN
        own, is_trusted = own_attributes(tree)
        self._own = own | {"__dict__"} if is_trusted else own - _internals()
        self._classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):  # before all else: a function may use what is imported below it
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign):
                self._bind(node)
        self.visit(tree)

    def _tell(self, what: str, node: ast.AST) -> None:
        line = getattr(node, "lineno", 1)
        self.found[what] = min(line, self.found.get(what, line))

    def _bind(self, node: ast.Import | ast.ImportFrom | ast.Assign) -> None:
        """Note which names are modules: by imports, and by `F = torch.nn.functional`."""
        if not isinstance(node, ast.Assign):
            self.visit(node)
        elif self._is_module(self.dotted(node.value)) and isinstance(node.targets[0], ast.Name):
            self.modules[node.targets[0].id] = self.dotted(node.value)

    def visit(self, node: ast.AST) -> None:
        for name in _bound_names(node):
            if name.startswith("__") and name not in self._given.names:
                self._tell(name, node)
        super().visit(node)

    # ---- imports ----
    def visit_Assign(self, node: ast.Assign) -> None:
        alias = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self.modules
        if not (alias and self._is_module(self.dotted(node.value))):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.generic_visit(node)
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self.modules[alias.asname or first] = alias.name if alias.asname else first
            if not self._is_module(alias.name):
                self._tell(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.generic_visit(node)
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            whole, name = f"{module}.{alias.name}", alias.asname or alias.name
            fits = self._is_module(whole) or self._is_name(module, alias.name)
            # Of the given code alone it is asked by importing: a function may be called like its file.
            is_object = fits or (self._is_given and module in _GIVEN_FROM and allowed.is_public(module, alias.name))
            if self._is_module(whole) or (not is_object and _is_file(whole)):
                self.modules[name] = whole
            else:
                self.objects[name] = whole
            if not fits:
                self._tell(whole if allowed.is_module(module) or module.startswith(_OURS) else module, node)

    def _is_module(self, dotted: str) -> bool:
        return allowed.is_module(dotted) or dotted in self._given.modules.values()

    def _is_name(self, module: str, name: str) -> bool:
        if f"{module}.{name}" in self._given.names:
            return True
        if allowed.is_module(module):
            return allowed.is_name(module, name)
        if not self._is_module(module) or module.startswith("autograder"):  # of the checks only what is given
            return False
        return allowed.is_public(module, name) if module.startswith("simulator") else not name.startswith("_")

    # ---- names and attributes ----
    def visit_Name(self, node: ast.Name) -> None:
        if node.id.startswith("__") and node.id not in ("__name__", "__debug__"):
            self._tell(node.id, node)
        elif not isinstance(node.ctx, ast.Load):
            pass
        elif node.id in self.modules:
            self._tell(f"the module {node.id} as a value", node)
        elif node.id in self._builtin or node.id in _BY_NAME or node.id == "type":
            self._tell(node.id, node)

    def dotted(self, node: ast.expr) -> str:
        """`torch.nn.Linear` for a chain of attributes that begins at a module; "" for any other expression."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, "")
        value = self.dotted(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{value}.{node.attr}" if value and isinstance(node, ast.Attribute) else ""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self.dotted(node):
            self._chain(node)
        else:
            self._attribute(node.value, node.attr, node, stored=not isinstance(node.ctx, ast.Load))
            self.visit(node.value)

    def _chain(self, node: ast.Attribute) -> None:
        """A chain from a module on: submodules, a name of one, then attributes of that."""
        root: ast.expr = node.value
        rest = [node.attr]
        while isinstance(root, ast.Attribute):
            rest.insert(0, root.attr)
            root = root.value
        module = self.dotted(root)
        while rest and self._is_module(f"{module}.{rest[0]}"):
            module = f"{module}.{rest.pop(0)}"
        if not isinstance(node.ctx, ast.Load):
            self._tell(f"{ast.unparse(node)} = ...", node)
        elif not rest:
            self._tell(f"the module {module} as a value", node)
        elif not self._is_name(module, rest[0]):
            self._tell(f"{module}.{rest[0]}", node)
        for name in rest[1:]:
            self._attribute(None, name, node)

    def _attribute(self, value: ast.expr | None, name: str, node: ast.AST, *, stored: bool = False) -> None:
        """An attribute of any object; of `value` where that is known."""
        if name in self._given.names or (is_self(value) and name in self._own):
            return
        if not allowed.is_attribute(name):
            self._tell(name, node)
        elif stored and not is_self(value) and name not in _WRITABLE:
            of_import = isinstance(value, ast.Call) or (isinstance(value, ast.Name) and value.id in self.objects)
            if of_import or name in _internals():
                self._tell(f"a changed {name} of something else", node)
        elif name in ("format", "format_map") and not isinstance(value, ast.Constant):
            self._tell(f"{name} of a computed text", node)

    # ---- what finds names by text ----
    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        plain = not node.keywords and not any(isinstance(argument, ast.Starred) for argument in node.args)
        by_name = name in _BY_NAME and plain and len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
        if by_name and isinstance(node.args[1], ast.Constant):
            self._attribute(node.args[0], str(node.args[1].value), node, stored=_BY_NAME[name])
        if by_name or (name == "type" and plain and len(node.args) == 1):
            for argument in node.args:
                self.visit(argument)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value not in self._given.texts and _DUNDER.search(node.value):
            self._tell(f"the text {node.value[:40]!r}", node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is only read
            self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._attribute(None, name, node)
        self.generic_visit(node)

    # ---- definitions ----
    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.keywords:
            self._tell("a class with keywords", node)
        for base in node.bases:
            whole = base.value if isinstance(base, ast.Subscript) else base  # Sampler[int]
            name = whole.id if isinstance(whole, ast.Name) else ""
            dotted = self.objects.get(name, name) if name else self.dotted(whole)
            if name not in self._classes and not _BASES.fullmatch(dotted):
                self._tell(f"a class on {ast.unparse(base)[:40]}", node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name.startswith("__") and not allowed.is_attribute(node.name) and node.name not in self._given.names:
            self._tell(node.name, node)
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._tell("async", node)
