"""What computes here, and with how many threads: one for what takes some milliseconds, and no more than that.

Threads of OpenMP (torch's, MKL's, oneDNN's) and of OpenBLAS (numpy's) wait for the last of them after every
operation, in a loop for some milliseconds. One question is a hundred short operations. With two threads on
two cores it is no faster than with one, and beside other programs every operation waits until the system
lets the other thread run: a question then took ten times as long as with one thread.

OpenMP's number belongs to the thread that asks, so that a limit changes nothing elsewhere. OpenBLAS' belongs
to the process, and it takes more than one for large products alone. So what a question multiplies is cut into
small ones here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import ThreadpoolController

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core._extras import importing
from surprise_rerank.core._process import limit_torch
from surprise_rerank.core.arrays import Float64Array, FloatArray

if TYPE_CHECKING:
    import torch

# Multiplications of a product for which OpenBLAS takes no second thread.
_SMALL = 1 << 18


def device_of(name: str) -> torch.device:
    """The device of a name, after a check that it can be used; a DataError if it cannot."""
    with importing("torch"):
        import torch  # here, because it takes seconds, and products in numpy do not need it

    limit_torch()
    try:
        place = torch.device(name)
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        names = ", ".join(map(repr, available_devices()))
        raise DataError(f"the device {name!r} cannot be used: here is {names}; choose of these") from error
    return place


def available_devices() -> list[str]:
    """The names of what can compute here: the processor, and accelerators that torch has a driver for."""
    import torch

    cuda = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    others = {"mps": torch.backends.mps, "xpu": getattr(torch, "xpu", None)}
    available = [name for name, backend in others.items() if backend is not None and backend.is_available()]
    return ["cpu", *(f"cuda:{number}" for number in cuda), *available]


def processor_has(*instructions: str) -> bool:
    """Whether this processor has one of these sets of instructions, such as `avx512_vnni`."""
    linux = Path("/proc/cpuinfo")
    if linux.exists():  # torch takes seconds to import
        flags = re.search(r"^flags\s*:(.*)$", linux.read_text("utf-8"), re.MULTILINE)
        return flags is not None and not set(flags[1].split()).isdisjoint(instructions)
    import torch

    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in instructions)


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads for what this thread of Python multiplies; None changes nothing.

    Not by `torch.set_num_threads`, which reaches further: it discards the products that oneDNN has prepared,
    and threads that begin later take the number over. A DataError if there are fewer than 1.
    """
    if threads is None:
        yield
        return
    border.count("threads", threads)
    with _openmp("torch" in sys.modules).limit(limits=threads):
        yield


@cache
def _openmp(with_torch: bool) -> ThreadpoolController:
    """The OpenMP libraries of this process, looked for again once torch has brought its own."""
    return ThreadpoolController().select(user_api="openmp")


def row_products(rows: FloatArray, vector: FloatArray) -> Float64Array:
    """(..., n, d) rows times one (d,) vector, (..., n), in float64 and in this thread alone."""
    products: Float64Array = np.einsum("...nd,d->...n", rows, vector, dtype=np.float64)
    return products


def products(rows: FloatArray, others: FloatArray) -> FloatArray:
    """(n, m) products of (n, d) rows with (m, d) others, in this thread alone."""
    size = max(1, _SMALL // max(others.size, 1))
    pieces = len(rows) // size
    whole = pieces * size
    result = np.empty((len(rows), len(others)), np.result_type(rows, others))
    cut = rows[:whole].reshape(pieces, size, rows.shape[1])
    np.matmul(cut, others.T, out=result[:whole].reshape(pieces, size, len(others)))
    np.matmul(rows[whole:], others.T, out=result[whole:])
    return result
