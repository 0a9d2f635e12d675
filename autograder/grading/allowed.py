"""What an exercise cell may use without a person looking: public parts of torch, numpy and the standard library.

Everything else is beyond an exercise unless its setup or starter uses it (`reaching`). The lists of torch are written
down, since nothing that reads a cell imports torch; a test goes through all that they let in.
"""

from __future__ import annotations

import builtins
import importlib
import re
import types

# fmt: off
# ruff: noqa: SIM905 - words, not a list of quotes
_BUILTINS = frozenset("""
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset hash hex id int isinstance issubclass iter len list map max min next object oct ord pow print
    property range repr reversed round set slice sorted staticmethod str sum super tuple zip Ellipsis False None
    NotImplemented True __name__ __debug__
""".split())
_CHECKED = frozenset({"getattr", "setattr", "hasattr", "delattr", "type"})  # fine in the form that `reaching` asks for

#: Whole modules, by what they call public; names that run text, look up names or touch files are left out.
_MODULES: dict[str, frozenset[str]] = {
    "__future__": frozenset(), "bisect": frozenset(), "collections": frozenset(), "collections.abc": frozenset(),
    "contextlib": frozenset(), "copy": frozenset(), "dataclasses": frozenset({"make_dataclass"}),
    "datetime": frozenset(), "fractions": frozenset(),
    "functools": frozenset({"update_wrapper", "wraps", "singledispatch", "singledispatchmethod"}),
    "heapq": frozenset(), "itertools": frozenset(), "math": frozenset(), "random": frozenset(),
    "simulator": frozenset({"run", "run_script", "record"}), "statistics": frozenset(), "time": frozenset(),
    "typing": frozenset({"ForwardRef", "get_type_hints"}),
    "numpy": frozenset({"load", "save", "savez", "savez_compressed", "savetxt", "loadtxt", "genfromtxt", "fromfile",
                        "memmap", "info", "show_config", "show_runtime", "get_include", "test"}),
    "numpy.linalg": frozenset(), "numpy.random": frozenset(),
}

_NAMES: dict[str, frozenset[str]] = {
    "torch.cpu": frozenset({"Stream", "current_stream", "stream", "synchronize"}),
    "torch.cuda": frozenset({"current_device", "device_count", "is_available", "set_device", "synchronize"}),
    "torch.autograd": frozenset({"Function", "backward", "grad"}),
    "torch.distributed": frozenset("""
        P2POp ReduceOp ProcessGroup Work DeviceMesh DistBackendError GroupMember GradBucket group all_gather
        all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier batch_isend_irecv
        broadcast broadcast_object_list gather gather_object get_backend get_global_rank get_group_rank
        get_process_group_ranks get_rank get_world_size init_device_mesh irecv is_available is_initialized isend
        monitored_barrier new_group new_subgroups recv recv_object_list reduce reduce_scatter reduce_scatter_tensor
        scatter scatter_object_list send send_object_list
    """.split()),
    "torch.distributed.algorithms.join": frozenset({"Join", "Joinable", "JoinHook"}),
    "torch.distributed.device_mesh": frozenset({"DeviceMesh", "init_device_mesh"}),
    "torch.distributed.fsdp": frozenset({"FSDPModule", "MixedPrecisionPolicy", "fully_shard"}),
    "torch.distributed.tensor": frozenset({"DTensor", "Partial", "Replicate", "Shard", "distribute_tensor"}),
    "torch.nn.parallel": frozenset({"DistributedDataParallel"}),
    "torch.nn.utils": frozenset({"clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector",
                                 "vector_to_parameters"}),
    "torch.utils.checkpoint": frozenset({"checkpoint", "checkpoint_sequential"}),
    "torch.utils.data": frozenset("""
        BatchSampler ConcatDataset DataLoader Dataset DistributedSampler IterableDataset RandomSampler Sampler
        SequentialSampler Subset TensorDataset get_worker_info random_split
    """.split()),
}
#: Modules of functions or classes that compute: all public names of the form but these, which do something else.
_COMPUTE: dict[str, tuple[re.Pattern[str], frozenset[str]]] = {
    "torch": (re.compile(r"[a-z]\w*|Tensor|Size|Generator|[A-Z]\w*Tensor|OutOfMemoryError|Stream|Event"), frozenset("""
        ao backends builtins classes classproperty compile compiled_with_cxx11_abi compiler cond contrib cpp cpu ctypes
        cuda nativert numa onnx
        default_generator distributions eig export fft fork from_dlpack from_file func functional functools futures fx
        get_device_module get_file_path glob hub import_ir_module import_ir_module_from_buffer importlib
        init_num_threads inspect is_storage jit library load lobpcg masked math merge_type_from_type_comment monitor
        mps mtia multiprocessing nested ops os overrides package parse_ir parse_schema parse_type_comment platform
        prepare_multiprocessing_environment profiler profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 quantization
        quantized_gru quantized_lstm quasirandom random return_types save serialization set_num_interop_threads
        set_num_threads signal sparse special storage sym_fresh_size sys testing textwrap thread_safe_generator
        threading to_dlpack torch torch_version types typename unify_type_list utils version vmap wait warnings
        while_loop windows xpu accelerator amp autograd distributed linalg nn optim
    """.split())),
    "torch.linalg": (re.compile(r"[a-z]\w*"), frozenset({"common_notes"})),
    "torch.nn": (re.compile(r"[A-Z]\w*"), frozenset({"Buffer"})),
    "torch.nn.functional": (re.compile(r"[a-z]\w*"), frozenset("""
        assert_int_or_pair boolean_dispatch dataclasses grad handle_torch_function has_torch_function
        has_torch_function_unary has_torch_function_variadic importlib math np torch warnings
    """.split())),
    "torch.nn.init": (re.compile(r"[a-z]\w*_"), frozenset()),
    "torch.optim": (re.compile(r"[A-Z]\w*"), frozenset()),
    "torch.optim.lr_scheduler": (re.compile(r"[A-Z]\w*(LR|Scheduler)"), frozenset()),
}
_PACKAGES = frozenset({"torch.distributed.algorithms", "torch.utils"})  # ways to a module above, nothing more

#: Attributes of any object. With what a rank holds they reach its frames, files, shared memory or the simulator's side.
_ATTRIBUTES = re.compile(
    r"(gi|cr|ag|tb)_\w+|f_(back|builtins|code|globals|lasti|lineno|locals|trace\w*)"
    r"|ctypes|tofile|dumps?|save|load|from_file|from_buffer|share_memory_?|filename|compile"
    r"|launch|complete|fail|next_seq|describe"  # of the simulator's own works and groups
    r"|get_group_store|store|boxed|unbox|abort|shutdown|split_group|merge_remote_group|set_timeout"
    r"|use_pg_for_symm_mem_rendezvous|block_current_stream"
)
DUNDERS = frozenset(
    f"__{name}__"
    for name in "init len iter next call enter exit getitem setitem delitem contains repr str bool name qualname doc "
    "post_init eq ne lt le gt ge hash add radd iadd sub rsub mul rmul truediv neg abs int float index reversed".split()
)
# fmt: on


def is_module(dotted: str) -> bool:
    """Whether a cell may import a module, and use what `is_name` lets in of it."""
    return dotted in _MODULES or dotted in _NAMES or dotted in _COMPUTE or dotted in _PACKAGES


def is_name(module: str, name: str) -> bool:
    """Whether a cell may use `name` of an allowed `module`. Says nothing of submodules."""
    if name.startswith("_"):
        return False
    if module in _COMPUTE:
        form, others = _COMPUTE[module]
        return bool(form.fullmatch(name)) and name not in others
    if module in _NAMES:
        return name in _NAMES[module]
    return module in _MODULES and name not in _MODULES[module] and is_public(module, name)


def is_public(module: str, name: str) -> bool:
    """Whether the module names it in `__all__` (without one: has it), and it is no module. Imports the module."""
    loaded = importlib.import_module(module)
    public = name in getattr(loaded, "__all__", dir(loaded)) and not name.startswith("_")
    return public and not isinstance(getattr(loaded, name, None), types.ModuleType)


def is_attribute(name: str) -> bool:
    """Whether an attribute of that name may be used of any object."""
    if name in ("_replace", "_asdict", "_fields", "_make"):  # public, of named tuples
        return True
    return name in DUNDERS if name.startswith("_") else not _ATTRIBUTES.fullmatch(name)


def is_builtin(name: str) -> bool:
    """Whether a built-in name may be used; also True for names that are not built in."""
    if name in _CHECKED or name in _BUILTINS or not hasattr(builtins, name):
        return True
    thing = getattr(builtins, name)
    return isinstance(thing, type) and issubclass(thing, BaseException)
