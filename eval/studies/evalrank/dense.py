"""Cosine and L2 of EvalRank's vectors, with ties and as published.

The vectors are (m, d), processed as EvalRank does it, and the cosine is their dot product: the one vector of
all unknown words, a mean, is shorter than 1.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, row_norms
from surprise_rerank.eval.studies.evalrank.ranks import Product

# Cosines of float32 vectors that are nearer than this are equal; distances, in units of a usual length.
ROUNDING = 1e-6
_BLOCK = 512


class VectorMeasure:
    """What the measures of vectors share.

    Args:
        vectors: (m, d) float32, of the items.
    """

    def __init__(self, vectors: Float32Array) -> None:
        self.vectors = vectors

    @cached_property
    def wide(self) -> Float64Array:
        """(m, d) the vectors in float64."""
        return self.vectors.astype(np.float64)

    def dots(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) dot products, summed row by row: no blocking or thread changes a bit of them."""
        dots = np.empty(len(first))
        for start in range(0, len(first), _BLOCK):
            block = slice(start, start + _BLOCK)
            dots[block] = (self.wide[first[block]] * self.wide[second[block]]).sum(axis=1)
        return dots

    def in_product(self, scores: Float64Array) -> Float64Array:
        """The scores: they are the products."""
        return scores

    def rows(self, first: IntArray) -> Float64Array:
        """(b, m) scores of b first items and every item."""
        items = np.arange(len(self.vectors))
        return np.stack([self.scores(np.full(len(items), a), items) for a in first])

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items."""
        raise NotImplementedError


class Cosine(VectorMeasure):
    """<a, j> of unit vectors."""

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) cosines of n pairs of items."""
        return self.dots(first, second)

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a cosine must exceed to be more than the pair's."""
        return self.scores(first, second) + ROUNDING

    def product(self) -> Product:
        """The vectors themselves."""
        return Product(self.vectors, self.vectors)


class Euclidean(VectorMeasure):
    """1 / (1 + |a - j|), EvalRank's L2 similarity."""

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) similarities of n pairs of items."""
        return 1 / (1 + self._distances(first, second))

    @cached_property
    def _length(self) -> float:
        """The usual length of a vector: their root mean square."""
        return float(np.sqrt((row_norms(self.vectors) ** 2).mean()))

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a similarity must exceed to be more than the pair's."""
        return 1 / (1 + np.maximum(self._distances(first, second) - ROUNDING * self._length, 0.0))

    def product(self) -> Product:
        """-|a - j|^2 / 2 = <a, j> - |a|^2 / 2 - |j|^2 / 2."""
        # In parts of like size, by which the error of a float32 product is bounded best.
        scale = np.full((len(self.vectors), 1), self._length or 1.0)
        half = -(row_norms(self.vectors)[:, None] ** 2) / 2 / scale
        left = np.concatenate([self.vectors, half, scale], axis=1)
        right = np.concatenate([self.vectors, scale, half], axis=1)
        return Product(left.astype(np.float32), right.astype(np.float32))

    def in_product(self, scores: Float64Array) -> Float64Array:
        """(n,) half the squared distances, negative."""
        return np.asarray(-((1 / scores - 1) ** 2) / 2)

    def _distances(self, first: IntArray, second: IntArray) -> Float64Array:
        distances = np.empty(len(first))
        for start in range(0, len(first), _BLOCK):
            block = slice(start, start + _BLOCK)
            differences = self.wide[first[block]] - self.wide[second[block]]
            distances[block] = np.sqrt((differences**2).sum(axis=1))
        return distances


class PublishedCosine(Cosine):
    """Cosines whose last bits decide, as in the published figures.

    There the products of the background and that of the pair are summed in different orders, so that the
    second item of one pair in four counts against itself. Here the orders are fixed, so that no library or
    machine changes the figures.
    """

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) the pairs' cosines, in four sums that are added in the end, as processors do."""
        products = self.wide[first] * self.wide[second]
        padded = np.pad(products, ((0, 0), (0, -products.shape[1] % 4)))
        return np.asarray(padded.reshape(len(padded), -1, 4).sum(axis=1).sum(axis=1))


class PublishedEuclidean(Euclidean):
    """L2 similarities whose last bits decide, as in the published figures.

    There the similarities of the background are float32 and that of the pair is float64, by a rule of older
    versions of numpy, so that the second item of every other pair counts against itself.
    """

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) similarities of n pairs of items, rounded to float32."""
        return super().scores(first, second).astype(np.float32).astype(np.float64)

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) the pairs' similarities, not rounded."""
        return super().scores(first, second)
