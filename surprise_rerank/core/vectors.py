"""Similarities of dense vectors: all higher for more similar, each a plain function of two vectors."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, unit_rows
from surprise_rerank.errors import DataError

VectorSimilarity: TypeAlias = Literal["dot", "cosine", "euclidean", "manhattan"]


def check_similarity(name: str) -> None:
    """Refuse a name that is none of dot, cosine, euclidean, manhattan."""
    if name not in get_args(VectorSimilarity):
        choices = ", ".join(get_args(VectorSimilarity))
        raise DataError(f"similarity {name!r} is not known; choose one of {choices}")


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

    (n, d) and (m, d) give (n, m) float64. A DataError if the similarity is not known or dimensions differ.

    >>> vector_similarities([[1.0, 0.0]], [[1.0, 0.0], [1.0, 3.0]], "euclidean")
    array([[1.  , 0.25]])
    """
    check_similarity(similarity)
    x, y = (prepared(np.atleast_2d(np.asarray(a, np.float32)), similarity) for a in (first, second))
    if x.shape[1] != y.shape[1]:
        raise DataError(f"vectors of dimension {x.shape[1]} and {y.shape[1]} cannot be compared")
    if is_linear(similarity):
        return x.astype(np.float64) @ y.T.astype(np.float64)
    from scipy.spatial import distance

    metric: Literal["euclidean", "cityblock"] = "euclidean" if similarity == "euclidean" else "cityblock"
    distances = distance.cdist(x, y, metric=metric)
    return 1.0 / (1.0 + distances)


def pair_similarities(
    first: FloatArray, second: FloatArray, similarity: VectorSimilarity = "dot"
) -> Float64Array:
    """(n,) similarities of n pairs: row i of one list to row i of the other, or to its only row.

    A DataError if the similarity is not known or the shapes do not fit.
    """
    check_similarity(similarity)
    x, y = (prepared(np.atleast_2d(np.asarray(a, np.float32)), similarity) for a in (first, second))
    if x.shape[1] != y.shape[1] or (len(x) != len(y) and 1 not in (len(x), len(y))):
        raise DataError(f"pairs need two lists of vectors of one shape, got {x.shape} and {y.shape}")
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    if is_linear(similarity):
        products: Float64Array = (wide_x * wide_y).sum(axis=1)
        return products
    order = 2 if similarity == "euclidean" else 1
    distances: Float64Array = np.linalg.norm(wide_x - wide_y, ord=order, axis=1)
    return 1.0 / (1.0 + distances)
