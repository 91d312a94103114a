"""Universes for the fuzzy bag of words: (K, d) vectors that tokens are multiplied with.

The identity needs no function: `FuzzyBagOfWords(None)`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from surprise_rerank.core.arrays import Float32Array, FloatArray, matrix, unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Texts


def vocabulary(texts: Texts, size: int | None = None, *, unit_tokens: bool = False) -> Float32Array:
    """The vectors of a corpus' most frequent words; a word of several vectors (in context) has their mean.

    Args:
        texts: with words and vectors.
        size: how many words at most; all by default. Ties go to the word that comes first in the corpus.
        unit_tokens: whether vectors are scaled to length 1 before their mean is taken, and the mean after.

    Returns:
        (V, d) float32, the most frequent word first.

    Raises:
        DataError: if there is no known word.
    """
    known = texts.known()
    words = [word for text in known.names for word in text]
    if not words:
        raise DataError("a vocabulary needs texts with known words; give some to fit on")
    ranked = [word for word, _ in Counter(words).most_common(size)]
    row = {word: i for i, word in enumerate(ranked)}
    rows = np.array([row.get(word, -1) for word in words], dtype=np.int64)
    batch = known.batch
    sums = np.zeros((len(ranked), batch.dimension))
    # One text at a time: a float64 copy of a whole corpus would be eight times its int8 form.
    for i in range(len(batch)):
        part = slice(int(batch.offsets[i]), int(batch.offsets[i + 1]))
        kept = rows[part] >= 0
        vectors = batch.text(i, unit=unit_tokens)[kept]
        np.add.at(sums, rows[part][kept], vectors)
    means = (sums / np.bincount(rows[rows >= 0], minlength=len(ranked))[:, None]).astype(np.float32)
    return unit_rows(means) if unit_tokens else means


def principal_axes(vectors: FloatArray, size: int | None = None) -> Float32Array:
    """The principal axes of vectors about their mean, the one of the largest variance first.

    The sign of an axis, which a fuzzy set depends on, is chosen such that its largest component is positive.

    >>> principal_axes(np.array([[0.0, -2.0], [0.0, 2.0], [1.0, 0.0], [-1.0, 0.0]])).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]

    Args:
        vectors: (n, d), at least one.
        size: how many axes at most; as many as there are by default.

    Returns:
        (min(size, n, d), d) float32 unit vectors, at right angles.

    Raises:
        DataError: if there are no vectors, or values are NaN or infinite.
    """
    centred = _some(vectors).astype(np.float64)
    centred -= centred.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:size]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.where(largest < 0, -1.0, 1.0)).astype(np.float32)


def centroids(vectors: FloatArray, size: int, *, seed: int = 0) -> Float32Array:
    """The centroids of k-means (scikit-learn's, one start by k-means++).

    Args:
        vectors: (n, d), at least one.
        size: how many centroids; at most as many as there are different vectors.
        seed: of the start.

    Returns:
        (min(size, different vectors), d) float32.

    Raises:
        DataError: if there are no vectors, or values are NaN or infinite.
    """
    from sklearn.cluster import KMeans  # here, because it takes a second, and other universes do not need it

    rows = _some(vectors)
    k = min(size, len(np.unique(rows, axis=0)))
    fitted = KMeans(n_clusters=k, n_init=1, random_state=seed).fit(rows)
    return np.asarray(fitted.cluster_centers_, dtype=np.float32)


def random_vectors(size: int, dimension: int, *, seed: int = 0) -> Float32Array:
    """Independent standard normal numbers, (size, dimension): the baseline of the other universes."""
    return np.random.default_rng(seed).standard_normal((size, dimension)).astype(np.float32)


def _some(vectors: FloatArray) -> Float32Array:
    if not len(vectors):
        raise DataError("a universe cannot be fitted on no vectors; give texts with known words to fit on")
    return matrix(vectors, "the vectors that a universe is fitted on")
