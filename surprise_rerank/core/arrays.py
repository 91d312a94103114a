"""Array types of the package, and checks of arrays that callers give."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank.errors import DataError

FloatArray: TypeAlias = npt.NDArray[np.floating]
Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# Rows that are checked together, so that a check takes no memory beside a large matrix.
_CHECKED = 65_536


def matrix(values: npt.ArrayLike, name: str, dimension: int | None = None) -> Float32Array:
    """A finite float32 matrix (n, d); a single vector (d,) becomes one row, and nothing (0, `dimension`).

    Raises:
        DataError: if the shape is another one or a value is NaN or infinite; calls the argument by `name`.
    """
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers of shape (n, d): {error}") from error
    array = array.reshape(0, dimension or 0) if array.shape == (0,) else np.atleast_2d(array)
    if array.ndim != 2:
        raise DataError(f"{name} must have shape (n, d), got {array.shape}")
    if dimension is not None and array.shape[1] != dimension:
        raise DataError(f"{name} has dimension {array.shape[1]}, expected {dimension}")
    if not all(np.isfinite(array[i : i + _CHECKED]).all() for i in range(0, len(array), _CHECKED)):
        raise DataError(f"{name} holds NaN or infinite values; remove or replace them first")
    return array


def row_norms(vectors: FloatArray) -> Float64Array:
    """Lengths of rows: (..., d) -> (...). In float64, where no square of a float32 overflows or vanishes."""
    rows = np.asarray(vectors)
    squares: Float64Array = np.einsum("...d,...d->...", rows, rows, dtype=np.float64)
    return np.sqrt(squares)


def unit_rows(vectors: FloatArray, norms: Float64Array | None = None) -> Float32Array:
    """Rows scaled to length 1, of their `row_norms` where these are known; zeros stay. (n, d) -> (n, d)."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = (row_norms(rows) if norms is None else norms)[..., None]
    # Zeros over 1 stay zeros; `where=` would take half as long again.
    unit: Float32Array = np.divide(
        rows, np.where(lengths > 0, lengths, 1.0), out=np.empty_like(rows), casting="same_kind"
    )
    return unit
