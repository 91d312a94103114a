"""How many threads multiply for a caller: one for what takes some milliseconds, and no more than that.

Threads of OpenMP (torch's, MKL's, oneDNN's) and of OpenBLAS (numpy's) wait for the last of them after every
operation, in a loop for some milliseconds. One question is a hundred short operations. With two threads on
two cores it is no faster than with one, and beside other programs every operation waits until the system
lets the other thread run: a question then took ten times as long as with one thread.

OpenMP's number belongs to the thread that asks, so that a limit changes nothing elsewhere. OpenBLAS' belongs
to the process, and it takes more than one for large products alone. So what a question multiplies is cut into
small ones here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from surprise_rerank import border
from surprise_rerank.core.arrays import Float64Array, FloatArray

# Multiplications of a product for which OpenBLAS takes no second thread.
_SMALL = 1 << 18


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
