"""Array types, checks of arrays that callers give, and similarities of vectors: higher for more similar."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError

FloatArray: TypeAlias = npt.NDArray[np.floating]
Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

VectorSimilarity: TypeAlias = Literal["dot", "cosine", "euclidean", "manhattan"]

# Rows that are checked together, so that a check takes no memory beside a large matrix.
_CHECKED = 65_536
_ONE_MODEL = "give a row for each, all of one model"


def matrix(values: npt.ArrayLike, name: str, dimension: int | None = None) -> Float32Array:
    """A finite float32 matrix (n, d); a single vector (d,) becomes one row, and nothing (0, `dimension`)."""
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers of shape (n, d): {error}; {_ONE_MODEL}") from error
    array = array.reshape(0, dimension or 0) if array.shape == (0,) else np.atleast_2d(array)
    require_rows(array, name, dimension)
    return array


def require_rows(array: npt.NDArray[Any], name: str, dimension: int | None = None) -> None:
    """Refuse what is no matrix (n, d) of finite numbers, or of another dimension."""
    if np.ndim(array) != 2 or dimension not in (None, array.shape[1]):
        border.refuse(name, np.shape(array), f"of shape (n, {dimension or 'd'})", _ONE_MODEL)
    for i in range(0, len(array), _CHECKED):
        for bad in np.flatnonzero(~np.isfinite(array[i : i + _CHECKED]).all(axis=1)):
            raise DataError(
                f"{name} must be finite, got NaN or infinite values in row {i + bad}; remove or replace them "
                "first"
            )


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


def is_linear(similarity: VectorSimilarity) -> bool:
    """Whether it is a dot product (of unit vectors, for the cosine), so that its moments need no scan."""
    return similarity in ("dot", "cosine")


def prepared(vectors: Float32Array, similarity: VectorSimilarity) -> Float32Array:
    """(n, d) vectors as the similarity reads them: scaled to length 1 for the cosine."""
    return unit_rows(vectors) if similarity == "cosine" else vectors


def vector_similarities(
    first: FloatArray, second: FloatArray, similarity: VectorSimilarity = "dot"
) -> Float64Array:
    """Similarities of every vector of one list to every vector of another.

    ========= =============================================
    dot       <x, y>
    cosine    <x, y> / (|x| |y|); 0 for a vector of zeros
    euclidean 1 / (1 + |x - y|)
    manhattan 1 / (1 + sum of |x_i - y_i|)
    ========= =============================================

    (n, d) and (m, d) give (n, m) float64.

    >>> vector_similarities([[1.0, 0.0]], [[1.0, 0.0], [1.0, 3.0]], "euclidean")
    array([[1.  , 0.25]])
    """
    x, y = (prepared(np.atleast_2d(np.asarray(a, np.float32)), similarity) for a in (first, second))
    if is_linear(similarity):
        return x.astype(np.float64) @ y.T.astype(np.float64)
    from scipy.spatial import distance

    metric: Literal["euclidean", "cityblock"] = "euclidean" if similarity == "euclidean" else "cityblock"
    distances = distance.cdist(x, y, metric=metric)
    return 1.0 / (1.0 + distances)


def pair_similarities(
    first: FloatArray, second: FloatArray, similarity: VectorSimilarity = "dot"
) -> Float64Array:
    """(n,) similarities of n pairs: row i of one list to row i of the other, or to its only row."""
    x, y = (prepared(np.atleast_2d(np.asarray(a, np.float32)), similarity) for a in (first, second))
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    if is_linear(similarity):
        products: Float64Array = (wide_x * wide_y).sum(axis=1)
        return products
    order = 2 if similarity == "euclidean" else 1
    distances: Float64Array = np.linalg.norm(wide_x - wide_y, ord=order, axis=1)
    return 1.0 / (1.0 + distances)
