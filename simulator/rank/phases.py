"""Which phase of training the main thread is in: told by torch's hooks, by file operations, or by
`simulator.annotate`.

The hooks are there only in ranks whose plan names a phase or a file operation: they cost a little on every module call.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import torch
from torch.nn.modules import module
from torch.optim import optimizer

from simulator.rank import context, threads

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NOT_DATA = ("/dev/", "/proc/", "/sys/")


def begin(phase: str) -> None:
    """The main thread enters `phase`, if a fault wants to know. Inside an annotation events keep the user's name."""
    ctx = context.get()
    if ctx.points.need_phases and ctx.thread is threads.MAIN:
        ctx.enter_phase(phase)
        ctx.points.at_phase(phase)


def install() -> None:
    """Watch this rank, as far as its faults need it."""
    points = context.get().points
    if points.need_phases:
        _watch_training()
        _watch_loads()
    if points.need_files:
        torch.save = _saving(torch.save)
        sys.addaudithook(_on_audit)


def _watch_training() -> None:
    def before_module(*_: Any) -> None:
        if context.get().own_phase not in ("forward", "backward"):  # backward: checkpointing runs forward again
            begin("forward")

    def before_step(*_: Any) -> None:
        begin("optimizer")

    module.register_module_forward_pre_hook(before_module)
    optimizer.register_optimizer_step_pre_hook(before_step)
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def patched(*args: Any, **kwargs: Any) -> None:
        begin("backward")
        backward(*args, **kwargs)

    torch.autograd.backward = patched


def _watch_loads() -> None:
    import torch.distributed.checkpoint as dcp  # seconds where it was not preloaded, so not at the top

    torch.load = _entering("load", torch.load)
    dcp.load = _entering("load", dcp.load)  # type: ignore[attr-defined]


def _entering(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def enter(*args: Any, **kwargs: Any) -> Any:
        begin(phase)
        return function(*args, **kwargs)

    return enter


def _saving(save: Callable[..., None]) -> Callable[..., None]:
    """torch.save writes a path in C++, where nothing can be cut off; a planned kill leaves the first half of the
    file.
    """

    @functools.wraps(save)
    def patched(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(f, str | PurePath):
            ctx = context.get()
            ctx.points.at_file_operation()
            if ctx.thread is threads.MAIN and ctx.points.has_phase("save-write"):
                data = io.BytesIO()
                save(obj, data, *args, **kwargs)
                _write(os.fspath(f), data.getvalue()[: len(data.getvalue()) // 2])
            begin("save-write")
        save(obj, f, *args, **kwargs)

    return patched


def _write(path: str | bytes, data: bytes) -> None:
    """Outside the audit hook's sight: this write is part of the fault."""
    global _is_ours
    _is_ours = True
    with open(path, "wb") as file:
        file.write(data)
    _is_ours = False


_is_ours = False


def _on_audit(event: str, args: tuple[Any, ...]) -> None:
    """Python tells of every open and rename before it happens."""
    if event == "open":
        if _is_data(args[0]) and _is_writing(args[1], args[2]):
            _file_operation("save-write", os.fspath(args[0]) if _truncates(args[1], args[2]) else "")
    elif event in ("os.rename", "os.remove") and _is_data(args[0]):
        _file_operation("save-rename" if event == "os.rename" else "")


def _is_data(path: Any) -> bool:
    """A file of the user's: no descriptor, no device, nothing that Python keeps for itself."""
    if _is_ours or not isinstance(path, str | bytes | PurePath):
        return False
    name = os.fsdecode(path)
    return not name.startswith(_NOT_DATA) and "__pycache__" not in name


def _is_writing(mode: Any, flags: Any) -> bool:
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)


def _truncates(mode: Any, flags: Any) -> bool:
    return any(letter in mode for letter in "wx") if isinstance(mode, str) else bool(flags & os.O_TRUNC)


def _file_operation(phase: str, opened: str | bytes = "") -> None:
    ctx = context.current
    if ctx is None or threads.current() is not threads.MAIN:
        return
    ctx.points.at_file_operation()
    if phase:
        if opened and ctx.points.has_phase(phase):
            _write(opened, b"")  # killed while it wrote: the file is there, and empty
        begin(phase)
