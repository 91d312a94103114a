"""Cosines normalised by what an item is near to anyway: CSLS, and the surprise score."""

from __future__ import annotations

import numpy as np
import torch

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import Progress
from surprise_rerank.eval.studies.evalrank.dense import ROUNDING, VectorMeasure
from surprise_rerank.eval.studies.evalrank.ranks import Items, Product
from surprise_rerank.surprise.linear_form import augmented_documents, augmented_query
from surprise_rerank.surprise.score import Surprise

# Neighbours that CSLS takes the mean of (Conneau et al., ICLR 2018).
_NEIGHBOURS = 10
_BLOCK = 512


class Csls(VectorMeasure):
    """2 <a, j> - r(a) - r(j), r being the mean cosine of an item to its nearest neighbours.

    (Conneau et al., 'Word Translation Without Parallel Data', ICLR 2018: cross-domain similarity local
    scaling.) Here both sides are one space, so an item is no neighbour of its own.

    Args:
        vectors: (m, d) unit vectors.
        nearness: (m,) r.
    """

    def __init__(self, vectors: Float32Array, nearness: Float64Array) -> None:
        super().__init__(vectors)
        self.nearness = nearness

    @classmethod
    def of(cls, items: Items, k: int = _NEIGHBOURS, on_progress: Progress | None = None) -> Csls:
        """Of items, the neighbours being those of the background."""
        x = torch.from_numpy(items.unit)
        there = np.flatnonzero(items.counts)
        y = x[torch.from_numpy(there)]
        place = np.full(len(x), -1)
        place[there] = np.arange(len(there))
        k = min(k, len(there) - 1)
        nearness = np.zeros(len(x))
        for start in range(0, len(x), _BLOCK):
            products = x[start : start + _BLOCK] @ y.T
            own = place[start : start + _BLOCK]
            mine = np.flatnonzero(own >= 0)
            products[torch.from_numpy(mine), torch.from_numpy(own[mine])] = -torch.inf
            if k > 0:
                nearness[start : start + _BLOCK] = products.topk(k, dim=1, sorted=False).values.mean(dim=1)
            if on_progress is not None:
                on_progress(len(products))
        return cls(items.unit, nearness)

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items."""
        return 2 * self.dots(first, second) - self.nearness[first] - self.nearness[second]

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a score must exceed to be more than the pair's."""
        return self.scores(first, second) + 2 * ROUNDING

    def product(self) -> Product:
        """[2 a, -r(a), 1] . [j, 1, -r(j)]."""
        r = -self.nearness[:, None]
        ones = np.ones_like(r)
        left = np.concatenate([2 * self.wide, r, ones], axis=1)
        right = np.concatenate([self.wide, ones, r], axis=1)
        return Product(left.astype(np.float32), right.astype(np.float32))


class SurpriseMeasure(VectorMeasure):
    """The surprise of <a, j>, the background item j being the anchor: the score of (<a, j> - mu_j) / sigma_j.

    Args:
        vectors: (m, d) unit vectors.
        surprise: the score, and the ensemble: the background.
    """

    def __init__(self, vectors: Float32Array, surprise: Surprise) -> None:
        super().__init__(vectors)
        self.surprise = surprise
        found = surprise.moments(vectors)
        shape = (len(vectors),)
        self.moments = Moments(np.broadcast_to(found.mean, shape), np.broadcast_to(found.deviation, shape))

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items."""
        return self._of(self.dots(first, second), second)

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a score must exceed to be more than the pair's."""
        return self._of(self.dots(first, second) + ROUNDING, second)

    def product(self) -> Product | None:
        """[a, 1] . [j / sigma_j, -mu_j / sigma_j], where the score is z; None where Psi_hat is mixed in."""
        if self.surprise.weight != 1:
            return None
        return Product(augmented_query(self.vectors), augmented_documents(self.vectors, self.moments))

    def rows(self, first: IntArray) -> Float64Array:
        """(b, m) scores of b first items and every item."""
        items = np.arange(len(self.vectors))
        return np.stack([self._of(cosines, items) for cosines in self.wide[first] @ self.wide.T])

    def _of(self, cosines: Float64Array, second: IntArray) -> Float64Array:
        chosen = Moments(self.moments.mean[second], self.moments.deviation[second])
        return self.surprise.scores_from(cosines, chosen).score
