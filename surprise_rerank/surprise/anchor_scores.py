"""Surprise of many keys to few anchors: texts to labels, points to the centres of clusters.

    Sigma_w(k, q_l) = (1 - w) Psi_hat(k, q_l) + w Phi((Psi(k, q_l) - mu_l) / sigma_l),  l = 1 .. L

Every anchor has its own mean and deviation over the ensemble, so that an anchor that is similar to everything
(a broad label, a centre in the middle) does not win everywhere. Psi_hat is that of `Surprise`, these anchors
being the population: at w = 0 the nearest anchor is the one of the highest similarity.

Keys are centred before they are multiplied, z = (k - m) . q / sigma + (m . q - mu) / sigma with m the
ensemble's mean: in a narrow cone Psi / sigma and mu / sigma are thousands, and float32 would lose z in their
difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import (
    Float32Array,
    Float64Array,
    FloatArray,
    is_linear,
    matrix,
    prepared,
    row_norms,
)
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import (
    Surprise,
    has_spread,
    mixture,
    ordered_share,
    share_below,
)

# Published: a weight below the first is taken as 0, one above the second as 1.
_NO_WEIGHT, _FULL_WEIGHT = 0.01, 0.99
# Components of a block's keys, and its scores, which fit the processor's cache.
_BLOCK_VALUES = 1 << 18
_LEAST_ROWS = 256
# Sums of float32 squares between these did not overflow or vanish.
_SMALL_SQUARE, _LARGE_SQUARE = 1e-20, 1e30


class AnchorScores:
    """Scores of keys against L anchors, whose moments are computed once.

    Args:
        anchors: (L, d) vectors.
        surprise: the ensemble, the model and the weight; its ensemble's similarity is `cosine` or `dot`.

    Attributes:
        weight: w; 0 where the ensemble has fewer than two members.
        model: of the surprise.
        defined: (L,) whether an anchor has a deviation, its own or the pooled one. Those that have none take
            that of the others (root mean square), so that all scores are on one scale.
    """

    def __init__(self, anchors: npt.ArrayLike, surprise: Surprise) -> None:
        ensemble = surprise.ensemble
        if not isinstance(ensemble, Ensemble) or not is_linear(ensemble.similarity):
            border.refuse("ensemble", ensemble, "one under the cosine or the dot product", "make it so")
        self._anchors = matrix(anchors, "anchors", ensemble.dimension)
        border.some("anchors", self._anchors, "give a label or a centre")
        self._prepared = prepared(self._anchors, ensemble.similarity)
        self._ensemble = ensemble
        self._cosine = ensemble.similarity == "cosine"
        self._moments = surprise.moments(self._anchors)
        self.model = surprise.model
        spread = np.broadcast_to(has_spread(self._moments), (len(self._anchors),))
        members = ensemble.sampled if self.model in ("percentile", "empirical") else ensemble.count
        self.defined = spread & (members > 1)
        weight = surprise.mixing_weight
        snapped = 1.0 if weight > _FULL_WEIGHT else 0.0 if weight < _NO_WEIGHT else weight
        self.weight = snapped if self.defined.any() else 0.0

    def __len__(self) -> int:
        return len(self._anchors)

    @cached_property
    def moments(self) -> Moments:
        """(L,) means and deviations that scores are computed with."""
        mean, deviation = np.broadcast_arrays(self._moments.mean, self._moments.deviation)
        deviations = deviation[self.defined]
        others = np.sqrt(np.mean(deviations**2)) if len(deviations) else 1.0
        means = np.broadcast_to(mean, self.defined.shape)
        return Moments(means, np.where(self.defined, deviation, others))

    def scores(self, keys: FloatArray) -> FloatArray:
        """(n, L) what to choose by, of (n, d) keys and in their precision: the highest of a row.

        z for weight 1 (the share (1) in the empirical model), Sigma_w of (4) below it, the similarity for
        weight 0.
        """
        return self._all(keys, probabilities=False)

    def probabilities(self, keys: FloatArray) -> FloatArray:
        """(n, L) Sigma_w in [0, 1], for thresholds: at weight 0 Psi_hat, at weight 1 Sigma.

        It saturates where an anchor is very near; choose by `scores`.
        """
        return self._all(keys, probabilities=True)

    def similarities(self, keys: FloatArray) -> FloatArray:
        """(n, L) similarities Psi, in the precision of the keys."""
        parts = [self._similarities(block) for _, block in self._blocks(keys)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self)), np.asarray(keys).dtype)

    def nearest(self, keys: FloatArray) -> npt.NDArray[np.int64]:
        """(n,) the place of the best-scored anchor, without keeping the scores; the first one of equals."""
        best = np.zeros(len(keys), dtype=np.int64)
        for rows, block in self._blocks(keys):
            best[rows] = self._scored(block, probabilities=False).argmax(axis=1)
        return best

    def _all(self, keys: FloatArray, *, probabilities: bool) -> FloatArray:
        scores = np.empty((len(keys), len(self)), dtype=_precision(keys))
        for rows, block in self._blocks(keys):
            scores[rows] = self._scored(block, probabilities=probabilities)
        return scores

    def _blocks(self, keys: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        vectors = np.asarray(keys)
        border.equal(
            "the shape of a key", vectors.shape[1:], self._anchors.shape[1:], "use one model for all"
        )
        size = max(_LEAST_ROWS, _BLOCK_VALUES // max(vectors.shape[1], len(self)))
        for start in range(0, len(vectors), size):
            rows = slice(start, start + size)
            yield rows, vectors[rows].astype(_precision(vectors), copy=False)

    def _similarities(self, block: FloatArray) -> FloatArray:
        """(b, L) similarities to the anchors."""
        products = block @ self._prepared.astype(block.dtype, copy=False).T
        if self._cosine:
            # Dividing the products is cheaper than the vectors; a vector of zeros has similarity 0.
            lengths = _lengths(block)[:, None]
            np.divide(products, lengths, out=products, where=lengths > 0)
        return np.asarray(products)

    def _z(self, block: FloatArray) -> FloatArray:
        """(b, L) z of the keys."""
        centred: FloatArray = block
        if self._cosine:
            lengths = _lengths(block)[:, None]
            centred = block / np.where(lengths > 0, lengths, 1)
        centred = np.subtract(centred, self._centre, out=None if centred is block else centred)
        z = centred @ self._scaled.astype(block.dtype, copy=False)
        z += self._offsets.astype(block.dtype)
        return np.asarray(z)

    def _scored(self, block: FloatArray, *, probabilities: bool) -> FloatArray:
        if self.weight == 0 or self.model == "empirical":
            psi = self._similarities(block)
            if self.weight == 0 and not probabilities:
                return psi
            sigma = self._shares(psi, probabilities=probabilities) if self.weight else np.zeros_like(psi)
        else:
            z = self._z(block)
            if self.weight == 1:
                return np.asarray(special.ndtr(z)) if probabilities else z
            mean, deviation = (a.astype(z.dtype) for a in (self.moments.mean, self.moments.deviation))
            psi, sigma = z * deviation + mean, special.ndtr(z)
        mixed = mixture(psi, sigma, self.weight, self._split)
        # A cosine may be below 0, or above 1 by rounding.
        return np.clip(mixed, 0.0, 1.0) if probabilities else mixed

    @cached_property
    def _scaled(self) -> Float64Array:
        """(d, L) q / sigma."""
        return self._prepared.astype(np.float64).T / self.moments.deviation

    @cached_property
    def _centre(self) -> Float32Array:
        """(d,) m, exact in the precision of any keys."""
        return self._ensemble.mean.astype(np.float32)

    @cached_property
    def _offsets(self) -> Float64Array:
        """(L,) (m . q - mu) / sigma."""
        return self._centre.astype(np.float64) @ self._scaled - self.moments.mean / self.moments.deviation

    @cached_property
    def _split(self) -> float:
        return float((self._prepared @ self._ensemble.mean).mean())

    def _shares(self, psi: FloatArray, *, probabilities: bool) -> Float64Array:
        """Equation (1) for each anchor; without `probabilities`, ordered by z within one member's share."""
        moments, sample = self.moments, self._ascending
        shares = np.full(psi.shape, 0.5)  # for an anchor whose members all have the same similarity
        for place in np.flatnonzero(self.defined):
            column = psi[:, place].astype(np.float64)
            below = share_below(column, sample[place])
            if not probabilities:
                z = (column - moments.mean[place]) / moments.deviation[place]
                below = ordered_share(below, z, sample.shape[1])
            shares[:, place] = below
        return shares

    @cached_property
    def _ascending(self) -> Float64Array:
        """(L, s) similarities of the sampled members to each anchor, in order."""
        return np.sort(self._ensemble.similarities(self._anchors), axis=1)


def _lengths(block: FloatArray) -> FloatArray:
    """(b,) lengths of vectors, in their precision; in float64 where a float32 square would not do."""
    squares = np.einsum("nd,nd->n", block, block)
    if block.dtype == np.float32 and not ((squares > _SMALL_SQUARE) & (squares < _LARGE_SQUARE)).all():
        return row_norms(block).astype(np.float32)
    return np.asarray(np.sqrt(squares))


def _precision(keys: npt.ArrayLike) -> type[np.float32] | type[np.float64]:
    return np.float32 if np.asarray(keys).dtype == np.float32 else np.float64
