"""Inputs that differ by rank and have many bits set."""

from collections.abc import Callable

import torch
import torch.distributed as dist

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


def numbers(*shape: int, dtype: torch.dtype = torch.float32, salt: int = 0) -> torch.Tensor:
    """This rank's own numbers."""
    generator = torch.Generator().manual_seed(1000 * salt + dist.get_rank())
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in INTEGERS:
        return torch.randint(0, 100, shape, generator=generator, dtype=dtype)
    if dtype is torch.complex64:
        return torch.complex(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
    return torch.randn(shape, generator=generator).to(dtype)


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def error_of(call: Callable[[], object]) -> str:
    """The type and words of the exception that `call` raises, or ""."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
