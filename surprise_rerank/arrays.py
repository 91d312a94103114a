"""The array types that flow between the scores, and the checks at their border."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank.errors import DataError

FloatArray: TypeAlias = npt.NDArray[np.floating]
Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]


def matrix(values: npt.ArrayLike, name: str, dimension: int | None = None) -> Float32Array:
    """A finite float32 matrix, or an error that names the argument and both shapes.

    Args:
        values: (n, d) numbers; a single vector (d,) becomes one row.
        name: what to call the argument in an error.
        dimension: the d that is expected, if one is.

    Raises:
        DataError: if the shape is another one or a value is NaN or infinite.
    """
    array = np.atleast_2d(np.asarray(values, dtype=np.float32))
    if array.ndim != 2:
        raise DataError(f"{name} must have shape (n, d), got {array.shape}")
    if dimension is not None and array.shape[1] != dimension:
        raise DataError(f"{name} has dimension {array.shape[1]}, expected {dimension}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} holds NaN or infinite values; remove or replace them first")
    return array


def unit_rows(vectors: FloatArray) -> Float32Array:
    """Rows scaled to length 1; rows of zeros stay zeros. (n, d) -> (n, d)."""
    rows = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Float32Array = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return unit
