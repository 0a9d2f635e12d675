"""Where a rank's program is: the module that runs and the phase of the training step.

Both are needed at every allocation, so both are cheap: a module call pushes its path on a stack (0.5 us; module hooks
would take `nn.Module.__call__` off its fast path), the phase is read from autograd. In backward the module is that of
the forward operator whose gradient runs: autograd numbers its nodes in the order in which forward made them, so the
numbers at which modules were entered and left are enough, and no backward hook is installed.

Stack and numbers are kept per thread, as autograd's are.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

FORWARD, RECOMPUTE, BACKWARD, OPTIMIZER, OUTSIDE = "forward", "recompute", "backward", "optimizer", ""
#: `forward` inside modules; `recompute` modules that run again during backward (activation checkpointing);
#: `backward` and `optimizer`; and "" for everything else.
PHASES = (FORWARD, RECOMPUTE, BACKWARD, OPTIMIZER, OUTSIDE)

_MOST_MARKS = 20_000  # two a module call: longer programs forget where their oldest graphs came from
_in_backward = torch._C._current_graph_task_id
_next_node = torch._C._autograd._get_sequence_nr
_node_now = torch._C._current_autograd_node


class _Thread(threading.local):
    """One thread's module stack, and the autograd numbers at which it entered or left a module."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, bool]] = []  # (module path, called during backward)
        self.numbers: list[int] = []
        self.paths: list[str] = []
        self.is_stepping = False

    def mark(self, path: str) -> None:
        number = _next_node()
        if self.numbers and self.numbers[-1] == number:
            self.paths[-1] = path
            return
        if len(self.numbers) >= _MOST_MARKS:
            del self.numbers[: _MOST_MARKS // 2], self.paths[: _MOST_MARKS // 2]
        self.numbers.append(number)
        self.paths.append(path)

    def behind_gradient(self) -> str:
        """The path of the module that ran when forward made the node that runs now."""
        node = _node_now()
        if node is None or not self.numbers or not hasattr(node, "_sequence_nr"):
            return ""
        number = node._sequence_nr()
        if number >= 1 << 63:  # a leaf's node, which has no place in the order
            return ""
        at = bisect_right(self.numbers, number) - 1
        return self.paths[at] if at >= 0 else ""


class Places:
    """Follows module calls and optimizer steps of this process between `install` and `remove`.

    `on_module` is called with every root module that is called for the first time, `on_optimizer` with (optimizer,
    whether the step begins) around every optimizer step.
    """

    def __init__(self) -> None:
        self.on_module: Callable[[nn.Module], None] = lambda _: None
        self.on_optimizer: Callable[[torch.optim.Optimizer, bool], None] = lambda *_: None
        self.roots: list[weakref.ref[nn.Module]] = []
        self._paths: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._thread = _Thread()
        self._undo: list[Callable[[], None]] = []

    # ---- questions ----
    def here(self) -> tuple[str, str]:
        """One of `PHASES`, and the path of the innermost module that runs, or in backward whose gradient is computed;
        "" for none.
        """
        thread = self._thread
        path, is_recomputing = thread.stack[-1] if thread.stack else ("", False)
        is_backward = _in_backward() != -1
        if is_backward and not is_recomputing:
            path, phase = thread.behind_gradient(), BACKWARD
        else:
            phase = RECOMPUTE if is_backward else FORWARD if thread.stack else OUTSIDE
        return (OPTIMIZER if thread.is_stepping else phase), path

    def phase(self) -> str:
        """One of `PHASES`."""
        return self.here()[0]

    # ---- following ----
    def enter(self, module: nn.Module) -> None:
        thread, known = self._thread, self._paths.get(id(module))
        if known is None or known[0]() is not module:
            known = self._learn(module)
        path = known[1] or type(module).__name__
        thread.stack.append((path, _in_backward() != -1))
        thread.mark(path)

    def leave(self) -> None:
        thread = self._thread
        thread.stack.pop()
        thread.mark(thread.stack[-1][0] if thread.stack else "")

    def _learn(self, module: nn.Module) -> tuple[weakref.ref[nn.Module], str]:
        """Names a module that is called for the first time, and all that is in it."""
        stack = self._thread.stack
        root = f"{stack[-1][0]}.{type(module).__name__}" if stack else self._root_name(module)
        for name, part in module.named_modules():
            self._paths[id(part)] = (weakref.ref(part), ".".join(filter(None, (root, name))))
        if not stack:
            self.roots.append(weakref.ref(module))
        self.on_module(module)
        return self._paths[id(module)]

    def _root_name(self, module: nn.Module) -> str:
        """Nothing for the first model of the process, the class for further ones, so that names stay apart."""
        others = [root() for root in self.roots]
        inside = {id(part) for part in module.modules()}
        return type(module).__name__ if any(root is not None and id(root) not in inside for root in others) else ""

    def path(self, module: nn.Module) -> str | None:
        """The path of a module that has run, or whose root has ("" for the first root itself, as in a state dict); None
        for any other.
        """
        known = self._paths.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    # ---- hooks ----
    def install(self) -> Places:
        """Patches `nn.Module.__call__` and registers torch's global optimizer hooks."""
        call = nn.Module.__call__

        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            self.enter(module)
            try:
                return call(module, *args, **kwargs)
            finally:
                self.leave()

        nn.Module.__call__ = __call__  # type: ignore[method-assign]
        before = register_optimizer_step_pre_hook(lambda optimizer, *_: self._step(optimizer, True))
        after = register_optimizer_step_post_hook(lambda optimizer, *_: self._step(optimizer, False))
        self._undo = [before.remove, after.remove, lambda: setattr(nn.Module, "__call__", call)]
        return self

    def remove(self) -> None:
        """Takes the hooks away again."""
        while self._undo:
            self._undo.pop()()

    def _step(self, optimizer: torch.optim.Optimizer, begins: bool) -> None:
        self.on_optimizer(optimizer, begins)
        self._thread.is_stepping = begins
