"""Points of a cell that reaches beyond its exercise wait for a person; those of honest work never do."""

from __future__ import annotations

import importlib
import pkgutil
import types
from pathlib import Path

import pytest

from autograder import course, lab_file
from autograder.grading import allowed, reaching
from autograder.grading.hold import hold
from autograder.matrix.solutions import reference, solutions
from autograder.results import CheckResult, Part

ROOT = Path(__file__).resolve().parents[2]
GIVEN = "import torch\nimport torch.distributed as dist\nimport datetime\n# uses: torch.save\n"

BEYOND = {
    "import os": "os",
    "import torch.multiprocessing": "torch.multiprocessing",
    "from torch import os": "torch.os",
    "torch.os.system('x')": "torch.os",
    "torch.nn.functional.np": "torch.nn.functional.np",
    "torch.load('x')": "torch.load",
    "torch.ops.aten": "torch.ops",
    "dist.TCPStore('a', 1)": "torch.distributed.TCPStore",
    "def f(): return np.fromfile('x')\nimport numpy as np": "numpy.fromfile",
    "import contextlib\ncontextlib.os": "contextlib.os",
    "from functools import wraps": "functools.wraps",
    "import typing\ntyping.get_type_hints": "typing.get_type_hints",
    "modules = [torch]": "the module torch as a value",
    "from simulator.rank import context": "simulator.rank.context",
    "import simulator\nsimulator.wire.Op = None": "simulator.wire.Op = ...",
    "from autograder.checks.lab2 import jobs": "autograder.checks.lab2.jobs",
    "open('x')": "open",
    "class A:\n  f = open\n  open = 1": "open",
    "[o for o in (open,)]": "open",
    "globals()": "globals",
    "__builtins__": "__builtins__",
    "getattr(x, name)": "getattr",
    "getattr(x, '_inner')": "_inner",
    "x.__class__": "__class__",
    "match x:\n  case A(f_globals=g): pass": "f_globals",
    "class A:\n  match {'x, y': int}:\n    case __annotations__: pass": "__annotations__",
    "match x:\n  case [*__x__]: pass": "__x__",
    "match x:\n  case {**__x__}: pass": "__x__",
    "try: pass\nexcept ValueError as __builtins__: pass": "__builtins__",
    "from math import pi as __builtins__": "__builtins__",
    "def f(*__x__): pass": "__x__",
    "lambda __x__: 1": "__x__",
    "f(__class__=1)": "__class__",
    "def f():\n  global __builtins__": "__builtins__",
    "class __A__: pass": "__A__",
    "f'{x.__dict__}'": "__dict__",
    "'{0.__class__}'.format(x)": "the text '{0.__class__}'",
    "text.format(x)": "format of a computed text",
    "type('A', (), {})": "type",
    "class T(torch.Tensor): pass": "a class on torch.Tensor",
    "class A(metaclass=M): pass": "a class with keywords",
    "def __getattr__(self, name): pass": "__getattr__",
    "torch.equal = f": "torch.equal = ...",
    "t.numel = f": "a changed numel of something else",
    "group.get_group_store()": "get_group_store",
    "work.launch(0, 0)": "launch",
    "t.numpy().tofile('x')": "tofile",
    "class A:\n  def launch(self): pass\n  def go(self): self.launch()\nA.go(work)": "launch",
    "class A:\n  def launch(self): pass\n  def go(this, self): self.launch()": "launch",
    "+".join(["x"] * 2000) + "+(" * 150 + "x" + ")" * 150: "code that is nested too deeply to be read",
}
LEAVING = ("os", "sys", "signal", "f_locals")
WITHIN = [
    "import math, itertools, functools, collections, dataclasses, typing, statistics, random, contextlib",
    "import numpy as np\nnp.random.default_rng(1).normal(size=3)",
    "torch.save(t, 'x')\ndatetime.datetime(2020, 1, 1)",  # the given code says so
    "F = torch.nn.functional\nF.relu(x)\nfrom torch import nn\nclass N(nn.Module): pass",
    "def f(input, vars): return input + vars",
    "p.grad = None\nx.data = y",
    "class M(torch.nn.Module):\n  def __init__(self):\n    super().__init__()\n    self._sent = []\n"
    "  def launch(self): pass\n  def forward(self, x):\n    self.launch()\n    return self._sent",
    "getattr(x, 'size')\ntype(x)\nisinstance(x, torch.Tensor)\n'{}'.format(3)\n__name__ == '__main__'",
    "'''Of __dunder__ methods.'''\ndef f():\n  '''And __here__.'''",
    "def broken(:",
]


@pytest.mark.parametrize("source", BEYOND)
def test_what_reaches_beyond(source: str) -> None:
    assert BEYOND[source] in reaching.reaches(source, GIVEN)


@pytest.mark.parametrize("source", WITHIN)
def test_what_is_within(source: str) -> None:
    assert reaching.reaches(source, GIVEN) == {}


def test_no_solution_variant_or_honest_mutant_is_held() -> None:
    """Mutants that reach are those that leave their process, or ask the check or the planner for the answer."""
    kinds = ("mutants", "variants")
    tried = [(s.exercise, f"{kind}/{s.name}", s.source) for kind in kinds for s in solutions(ROOT, kind)]
    tried += [(e.id, f"reference of {e.id}", reference(ROOT, e.id)) for e in course.load(ROOT).exercises()]
    labs = {lab.id: lab_file.load(ROOT, lab.id) for lab in course.load(ROOT).labs() if lab.exercises}
    held = {}
    for exercise, name, source in tried:
        facts = labs[exercise.split("/")[0]]
        found = reaching.reaches(source, facts.setup_of(exercise), facts.exercise(exercise).starter)
        if not all(what.startswith(("autograder.", "simulator.", *LEAVING)) for what in found):
            held[name] = found
        assert not found or "mutants" in name, (name, found)
    assert held == {}


# Of torch's names that are let in and are no operator: each was read.
_READ = """
    broadcast_shapes device dtype e enable_grad finfo iinfo inf inference_mode initial_seed autocast layout lstsq lu
    manual_seed matrix_rank memory_format nan newaxis no_grad pca_lowrank pi qscheme seed set_default_device
    set_default_dtype set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision
    set_flush_denormal set_grad_enabled set_printoptions set_rng_state set_warn_always solve svd_lowrank symeig unique
    unravel_index use_deterministic_algorithms Event Generator OutOfMemoryError Size Stream Tensor
"""
_READ_FORMS = ("is_", "get_", "has_", "set_a", "are_", "autocast_", "clear_autocast", "sym_")


def test_nothing_unread_is_let_in() -> None:
    """Every public name of every allowed module of torch: an operator, a class of layers, or on the list above."""
    torch = importlib.import_module("torch")
    operators = {*dir(torch._C._VariableFunctions), *dir(torch._C._linalg), *dir(torch._C._nn)}
    read, strange = set(_READ.split()), []
    for module in [m for m in (*allowed._COMPUTE, *allowed._NAMES) if m.startswith("torch")]:
        place = importlib.import_module(module)
        on_disk = {found.name for found in pkgutil.iter_modules(getattr(place, "__path__", []))}  # imported or not
        names = (n for n in {*dir(place), *on_disk} if allowed.is_name(module, n))
        for name in sorted(n for n in names if not allowed.is_module(f"{module}.{n}")):
            thing = types if name in on_disk else getattr(place, name)  # for isinstance: any module
            is_plain = isinstance(thing, torch.dtype | torch.layout | torch.memory_format | torch.qscheme)
            is_read = name in read or name.startswith(_READ_FORMS) or name.endswith("Tensor")
            if isinstance(thing, types.ModuleType) or (
                module == "torch" and name not in operators and not is_plain and not is_read
            ):
                strange.append(f"{module}.{name}")
    assert strange == []


def test_a_held_result_counts_nothing_and_says_so() -> None:
    parts = [Part("a", "A", True, 4.0, 4.0), Part("b", "B", False, 0.0, 2.0)]
    earned = CheckResult(exercise="lab2/x", points=4.0, max_points=6.0, passed=False, parts=parts, findings=[])
    result = hold(earned, "import socket\nimport os", ("",))
    assert (result.points, result.held, [part.points for part in result.parts]) == (0.0, 4.0, [0.0, 0.0])
    assert result.parts[0].note == "held: it would count 4"
    assert "The cell uses `socket` (line 1), `os` (line 2), which the exercise does not need" in result.findings[0].text
    assert hold(earned, "x = 1", ("",)) == earned
