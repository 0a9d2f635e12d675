"""What torch has but gloo on CPU cannot do, refused in one sentence that says what to use instead.

Torch's own errors for these come late, from C++, or not at all. Only calls that cannot succeed are touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from simulator.rank.failures import Unsupported

Refuses = Callable[..., bool]


def _always(*_: Any, **__: Any) -> bool:
    return True


def _names_gpu(device_type: str = "cpu", *_: Any, **__: Any) -> bool:
    return device_type != "cpu"


def _without_mesh(state: Any, process_group: Any = None, device_mesh: Any = None, *_: Any) -> bool:
    return process_group is None and not device_mesh


def _needs_nccl(ranks: Any = None, timeout: Any = None, backend: Any = None, *_: Any, **__: Any) -> bool:
    return backend is not None and "gloo" not in str(backend)


_DIST = "torch.distributed"
_SPLIT = "split_group works on NCCL only: use dist.new_group(ranks) with the same ranks"
_GPU = 'ranks are CPU processes without a GPU: use the device type "cpu"; virtual time is that of the cluster\'s GPUs'
ONLY_GLOO = '{call}: ranks talk over gloo, there is no other backend: leave backend out, or write backend="gloo"'
#: (modules where the name is looked up, name, whether a call is refused, the sentence)
_REFUSED: tuple[tuple[tuple[str, ...], str, Refuses, str], ...] = (
    ((_DIST, f"{_DIST}.distributed_c10d"), "split_group", _always, _SPLIT),
    ((_DIST, f"{_DIST}.device_mesh"), "init_device_mesh", _names_gpu, _GPU),
    ((_DIST, f"{_DIST}.distributed_c10d"), "new_group", _needs_nccl, ONLY_GLOO.format(call="new_group")),
    (
        (f"{_DIST}.tensor.experimental",),
        "context_parallel",
        _always,
        "context_parallel has no attention kernel for CPU in this version of torch: pass the keys and values around a "
        "ring with dist.batch_isend_irecv",
    ),
    (
        (f"{_DIST}.fsdp._init_utils",),
        "_init_process_group_state_for_hybrid_shard",
        _without_mesh,
        "HYBRID_SHARD without a mesh takes each CPU process for a node of its own and shards nothing: pass "
        'device_mesh=init_device_mesh("cpu", (replicas, shards)), or use fully_shard on that mesh',
    ),
    (
        (f"{_DIST}.checkpoint.state_dict_saver",),
        "_ProcessBasedAsyncCheckpointExecutor",
        _always,
        "async_save in a process of its own leaves the run, which could not see it: use "
        "async_checkpointer_type=AsyncCheckpointerType.THREAD, the default",
    ),
    (
        (f"{_DIST}.rpc",),
        "init_rpc",
        _always,
        "torch.distributed.rpc does not go through process groups, so the run could not see it: use dist.send and "
        "dist.recv, or an object collective",
    ),
)
#: What gloo says when it gets arguments that it cannot work with, and what to do.
_GLOO_WORDS = {
    "Invalid scalar type": "gloo cannot carry {dtype} in {op}: convert to another dtype first (float32, bfloat16, "
    "int32, int64){or_bytes}",
    "PREMUL_SUM": "PREMUL_SUM works on NCCL only: multiply the tensor first and reduce with SUM",
}


def install() -> None:
    """Replace the refused names in this process: in modules that are imported now, and in others when they are."""
    for modules, *_ in _REFUSED:
        for name in modules:
            if name in sys.modules:
                _patch(sys.modules[name])
    sys.meta_path.insert(0, _PatchOnImport())


def _patch(module: ModuleType) -> None:
    for modules, name, refuses, sentence in _REFUSED:
        if module.__name__ in modules:
            setattr(module, name, _guarded(getattr(module, name), refuses, sentence))


class _PatchOnImport(importlib.abc.MetaPathFinder):
    """Importing these modules costs seconds, so no rank imports them just to forbid something in them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not any(fullname in modules for modules, *_ in _REFUSED):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _guarded(original: Callable[..., Any], refuses: Refuses, sentence: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if refuses(*args, **kwargs):
            raise Unsupported(sentence)
        return original(*args, **kwargs)

    call.__name__, call.__doc__ = original.__name__, original.__doc__
    return call


def explained(error: Exception, op: str, dtype: str) -> Exception:
    """The error of a gloo call, with our sentence where we have one."""
    for words, sentence in _GLOO_WORDS.items():
        if words in str(error):
            or_bytes = "" if "reduce" in op else ", or send the same bytes with tensor.view(torch.uint8)"
            return Unsupported(sentence.format(op=op, dtype=dtype, or_bytes=or_bytes))
    return error
