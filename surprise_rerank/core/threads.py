"""How many threads multiply for a caller: one for what takes some milliseconds, and no more than that.

Threads of OpenMP (torch's, MKL's, oneDNN's) and of OpenBLAS (numpy's) wait for the last of them after every
operation, in a loop for some milliseconds. One question is a hundred short operations. With two threads on
two cores it is no faster than with one, and beside other programs every operation waits until the system
lets the other thread run: a question then took ten times as long as with one thread.

OpenMP's number belongs to the thread that asks, so that a limit changes nothing elsewhere. OpenBLAS' belongs
to the process. What a question multiplies therefore avoids numpy's products: `row_products` here, or torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from surprise_rerank.core.arrays import Float64Array, FloatArray
from surprise_rerank.errors import DataError


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads for what this thread of Python multiplies; None changes nothing.

    Not by `torch.set_num_threads`, which reaches further: it discards the products that oneDNN has prepared,
    and threads that begin later take the number over. A DataError if there are fewer than 1.
    """
    if threads is None:
        yield
        return
    if threads < 1:
        raise DataError(f"threads must be at least 1, got {threads}")
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
