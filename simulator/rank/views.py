"""Views and other names for a tensor cost nothing on a GPU. Here the dispatch mode that charges operators would cost
each of them a call of Python, and they are more than half of all operators of a step: so they pass by it.

A kernel that falls through, for the dispatch key of Python, takes an operator from every dispatch mode and tensor
subclass of the process. Whoever needs to see views gets them back, for good, before the first could be missed: when
the first mode but ours is entered, and when the first tensor of a subclass with a `__torch_dispatch__` is made (a
DTensor, a fake tensor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import library
from torch.distributed.tensor import DTensor
from torch.utils import _python_dispatch

#: What training steps call most. `detach` comes to modes on another way, which nothing can close.
VIEWS = (
    *("view", "t", "transpose.int", "permute", "unbind.int", "slice.Tensor", "select.int", "unsqueeze", "squeeze"),
    *("squeeze.dim", "expand", "as_strided", "alias", "split.Tensor", "split_with_sizes", "_unsafe_view"),
    *("unfold", "detach"),
)


def hide_views(is_ours: Callable[[object], bool]) -> None:
    """Hides them from dispatch modes until somebody else needs them; `is_ours(mode)`: a mode that does not."""
    falling = library.Library("aten", "IMPL", "Python")  # type: ignore[no-untyped-call]
    for name in VIEWS:
        falling.impl(name, library.fallthrough_kernel)  # type: ignore[no-untyped-call]
    undo: list[Callable[[], None]] = [falling._destroy]

    def watch(owner: Any, name: str, needs_views: Callable[..., bool], wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if undo and needs_views(*args):
                while undo:
                    undo.pop()()
            return original(*args, **kwargs)

        setattr(owner, name, wrap(watched))
        undo.append(lambda: setattr(owner, name, wrap(original)))

    watch(_python_dispatch, "_push_mode", lambda mode, *_: not is_ours(mode), lambda function: function)
    watch(DTensor, "__new__", lambda *_: True, staticmethod)
    watch(torch.Tensor, "_make_wrapper_subclass", lambda *_: True, staticmethod)
    watch(torch.Tensor, "_make_subclass", lambda kind, *_: _dispatches(kind), staticmethod)
    watch(torch.Tensor, "as_subclass", lambda _, kind: _dispatches(kind), lambda function: function)


def _dispatches(kind: type) -> bool:
    return getattr(kind, "__torch_dispatch__", None) is not torch._C._disabled_torch_dispatch_impl
