"""The rank of a pair (a, b) among a background: the items that are more similar to a than b is, at least 1.

(Wang, Kuo and Li, 'Just Rank: Rethinking Evaluation with Word and Sentence Similarities', ACL 2022.) At least
1, because a itself is in the background and is more similar to a than anything else is.

Items whose vectors are equal are one item that counts several times, and what differs by no more than
rounding is equal: else the last bit of a float32 decides, and with it the number of threads. Of items that
are as similar as b half stand before it. Words that a vocabulary lacks have one vector, by the thousand:
among them b has the rank of chance, so that a model gains nothing by knowing few words. Published figures
count none of them.

Vectors are (m, d), processed as EvalRank does it, and the cosine is their dot product: the one vector of all
unknown words, a mean, is shorter than 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core._extras import importing
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, row_norms
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import Progress
from surprise_rerank.similarities._bags import Texts
from surprise_rerank.similarities.definitions import Similarity
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight, has_spread


class Measure(ABC):
    """Scores of m items, each as the first of a pair and as one of the background.

    Attributes:
        error: by how much a number of `rows` may differ from the score.
        rounding: by how much two scores must differ to be different.
        counts_equals: whether half of the items that are as similar as the second one stand before it.
    """

    error = rounding = 0.0
    counts_equals = True

    @abstractmethod
    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items, as defined."""

    def limits(self, first: IntArray, second: IntArray, side: int = 1) -> Float64Array:
        """(n,) what a score must exceed to be more than the pair's; at side -1, reach to be equal."""
        return self.scores(first, second) + side * self.rounding

    @abstractmethod
    def rows(self, first: IntArray) -> Float64Array:
        """(b, m) scores of b first items and every item, by matrix products."""


def ranks(
    measure: Measure,
    pairs: IntArray,
    counts: IntArray,
    on_progress: Progress | None = None,
    block: int = 1 << 21,
) -> Float64Array:
    """(n,) ranks of (n, 2) pairs of items, from 1; halves where items are equal.

    `counts` are (m,): how often each item is in the background; `block` scores are in memory together.
    """
    border.some("pairs", pairs, "give some to rank")
    limits = measure.limits(pairs[:, 0], pairs[:, 1])
    least = measure.limits(pairs[:, 0], pairs[:, 1], -1) if measure.counts_equals else limits
    above = np.zeros(len(pairs), dtype=np.int64)
    equal = np.ones(len(pairs), dtype=np.int64)  # the second item itself
    for chosen, first, row_of in _blocks(pairs[:, 0], max(1, block // len(counts))):
        rows = measure.rows(first)
        for i, r in zip(chosen.tolist(), row_of.tolist(), strict=True):
            with np.errstate(invalid="ignore"):
                is_above = rows[r] - limits[i] > measure.error
                is_unsure = ~is_above & (rows[r] - least[i] >= -measure.error)
            above[i] = counts[is_above].sum()
            # What the product leaves open is looked at pair by pair.
            unsure = np.flatnonzero(is_unsure)
            exact = measure.scores(np.full(len(unsure), pairs[i, 0]), unsure)
            above[i] += counts[unsure[exact > limits[i]]].sum()
            if measure.counts_equals:
                equal[i] = counts[unsure[(exact <= limits[i]) & (exact >= least[i])]].sum()
        if on_progress is not None:
            on_progress(len(chosen))
    return np.maximum(above + np.maximum(equal - 1, 0) / 2, 1)


def hits(places: Float64Array, k: int) -> float:
    """Hits@k, the share of (n,) ranks that are at most k."""
    return float((places <= k).mean())


@dataclass(frozen=True, eq=False)
class Items:
    """Items of a ranking, once each: (m, d) float32 vectors, plain and unit; how often they are in it."""

    plain: Float32Array
    unit: Float32Array
    counts: IntArray

    @classmethod
    def of(cls, plain: Float32Array, unit: Float32Array, background: int) -> tuple[Items, IntArray]:
        """Items of (n, d) vectors, the first being the background; and (n,) which one each vector is."""
        kinds: dict[bytes, int] = {}
        vectors = np.concatenate([plain, unit], axis=1) + np.float32(0)  # which makes 0 of -0
        numbers = (kinds.setdefault(vector.tobytes(), len(kinds)) for vector in vectors)
        places = np.fromiter(numbers, np.int64, len(vectors))
        rows = np.unique(places, return_index=True)[1]
        counts = np.bincount(places[:background], minlength=len(rows)).astype(np.int64)
        return cls(plain[rows], unit[rows], counts), places

    @property
    def background(self) -> IntArray:
        """(b,) items of the background, as often as they are in it."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def _blocks(first: IntArray, size: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Pairs with at most `size` different first items: their positions, the items, and each pair's item."""
    items, item_of = np.unique(first, return_inverse=True)
    order = np.argsort(item_of, kind="stable")
    ends = np.searchsorted(item_of[order], np.arange(0, len(items) + size, size))
    for start in range(0, len(items), size):
        chosen = order[ends[start // size] : ends[start // size + 1]]
        yield chosen, items[start : start + size], item_of[chosen] - start


with importing("torch"):
    import torch

# (b,) numbers of b pairs of vectors, each (b, d).
_OfPairs: TypeAlias = Callable[[Float64Array, Float64Array], Float64Array]
# Model, weight, and how far moments are moved to those of all items; as the systems of these names.
_SURPRISE: dict[str, tuple[SurpriseModel, Weight, float]] = {
    "surprise": ("gaussian", 1.0, 0.0),
    "surprise-crossover": ("gaussian", "crossover", 0.0),
    "surprise-mixed": ("gaussian", 0.5, 0.0),
    "surprise-pooled": ("pooled", 1.0, 0.0),
    "surprise-pooled-mixed": ("pooled", 0.5, 0.0),
    "surprise-shrunk": ("gaussian", 1.0, 0.5),
}
DENSE_MEASURES = ("cosine", "l2", "csls", *_SURPRISE)
# Cosines of float32 vectors that are nearer than this are equal; distances, in units of a usual length.
_ROUNDING = 1e-6
_NEIGHBOURS = 10  # that CSLS takes the mean of
_BLOCK = 512


def dense_measure(name: str, items: Items, *, as_published: bool = False) -> Measure:
    """A measure by name; as published, the last bits of `cosine` and `l2` decide."""
    if name == "cosine":
        return PublishedCosine(items.unit) if as_published else Cosine(items.unit)
    if name == "l2":
        return PublishedEuclidean(items.plain) if as_published else Euclidean(items.plain)
    if name == "csls":
        return Csls(items)
    model, weight, shrink = _SURPRISE[name]
    ensemble = Ensemble.from_vectors(items.unit[items.background], sample_size=0)
    surprise = Surprise(ensemble, model, weight, shrink_mean=shrink, shrink_deviation=shrink)
    return SurpriseMeasure(items.unit, surprise)


class Cosine(Measure):
    """<a, j> of the items' (m, d) unit vectors, and what others make of it by `of`."""

    error = rounding = _ROUNDING

    def __init__(self, vectors: Float32Array) -> None:
        self.wide = vectors.astype(np.float64)

    def of(self, cosines: Float64Array, first: IntArray, second: IntArray) -> Float64Array:
        """Scores of cosines, in their shape; items are of a shape that goes with it."""
        return cosines

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items; no blocking or thread changes a bit of them."""
        return self.of(self._by_blocks(_products, first, second), first, second)

    def limits(self, first: IntArray, second: IntArray, side: int = 1) -> Float64Array:
        """(n,) as `Measure.limits`, the rounding being the cosine's."""
        return self.of(self._by_blocks(_products, first, second) + side * _ROUNDING, first, second)

    def rows(self, first: IntArray) -> Float64Array:
        return self.of(self.wide[first] @ self.wide.T, first[:, None], np.arange(len(self.wide)))

    def _by_blocks(self, function: _OfPairs, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) numbers of n pairs of vectors, row by row."""
        numbers = np.empty(len(first))
        for start in range(0, len(first), _BLOCK):
            block = slice(start, start + _BLOCK)
            numbers[block] = function(self.wide[first[block]], self.wide[second[block]])
        return numbers


def _products(a: Float64Array, b: Float64Array) -> Float64Array:
    return np.asarray((a * b).sum(axis=1))


class Euclidean(Cosine):
    """1 / (1 + |a - j|), EvalRank's L2 similarity."""

    @cached_property
    def _lengths(self) -> Float64Array:
        return row_norms(self.wide)

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        return 1 / (1 + self._distances(first, second))

    def limits(self, first: IntArray, second: IntArray, side: int = 1) -> Float64Array:
        """(n,) as `Measure.limits`, the rounding being a distance's."""
        usual = float(np.sqrt((self._lengths**2).mean()))
        return 1 / (1 + np.maximum(self._distances(first, second) - side * _ROUNDING * usual, 0.0))

    def rows(self, first: IntArray) -> Float64Array:
        squares = self._lengths**2
        distances = squares[first, None] + squares - 2 * super().rows(first)
        return np.asarray(1 / (1 + np.sqrt(np.maximum(distances, 0.0))))

    def _distances(self, first: IntArray, second: IntArray) -> Float64Array:
        return self._by_blocks(lambda a, b: np.sqrt(((a - b) ** 2).sum(axis=1)), first, second)


class PublishedCosine(Cosine):
    """Cosines whose last bits decide, as in the published figures.

    There the products of the background and of the pair are summed in different orders, so that the second
    item of one pair in four counts against itself. Here the orders are fixed, whatever library or machine.
    """

    counts_equals = False

    def limits(self, first: IntArray, second: IntArray, side: int = 1) -> Float64Array:
        """(n,) the pairs' cosines, in four sums that are added in the end, as processors do."""
        products = self.wide[first] * self.wide[second]
        padded = np.pad(products, ((0, 0), (0, -products.shape[1] % 4)))
        return np.asarray(padded.reshape(len(padded), -1, 4).sum(axis=1).sum(axis=1))


class PublishedEuclidean(Euclidean):
    """L2 similarities whose last bits decide, as in the published figures.

    There the background's are float32 and the pair's are float64, by a rule of older versions of numpy, so
    that the second item of every other pair counts against itself.
    """

    counts_equals = False

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) similarities of n pairs of items, rounded to float32."""
        return super().scores(first, second).astype(np.float32).astype(np.float64)

    def limits(self, first: IntArray, second: IntArray, side: int = 1) -> Float64Array:
        """(n,) the pairs' similarities, not rounded."""
        return super().scores(first, second)


class Csls(Cosine):
    """2 <a, j> - r(a) - r(j), r being the mean cosine of an item to its nearest neighbours.

    (Conneau et al., 'Word Translation Without Parallel Data', ICLR 2018: cross-domain similarity local
    scaling.) Neighbours are of the background; as both sides are one space, an item is none of its own.
    """

    def __init__(self, items: Items) -> None:
        super().__init__(items.unit)
        count = min(_NEIGHBOURS, int((items.counts > 0).sum()) - 1)
        self.nearness = np.zeros(len(items.unit))
        for start in range(0, len(items.unit) if count > 0 else 0, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, len(items.unit)))
            products = items.unit[block] @ items.unit.T
            products[:, items.counts == 0] = -np.inf
            products[np.arange(len(block)), block] = -np.inf
            nearest = np.partition(products, -count, axis=1)[:, -count:]
            self.nearness[block] = nearest.mean(axis=1, dtype=np.float64)

    def of(self, cosines: Float64Array, first: IntArray, second: IntArray) -> Float64Array:
        return np.asarray(2 * cosines - self.nearness[first] - self.nearness[second])


class SurpriseMeasure(Cosine):
    """The surprise of <a, j>, background item j being the anchor: the score of (<a, j> - mu_j) / sigma_j."""

    def __init__(self, vectors: Float32Array, surprise: Surprise) -> None:
        super().__init__(vectors)
        self.surprise = surprise
        moments, shape = surprise.moments(vectors), (len(vectors),)
        self.moments = Moments(
            np.broadcast_to(moments.mean, shape), np.broadcast_to(moments.deviation, shape)
        )

    def of(self, cosines: Float64Array, first: IntArray, second: IntArray) -> Float64Array:
        chosen = Moments(self.moments.mean[second], self.moments.deviation[second])
        if cosines.ndim == 1:
            return self.surprise.scores_from(cosines, chosen).score
        if self.surprise.weight == 1 and has_spread(self.moments).all():
            return np.asarray((cosines - chosen.mean) / chosen.deviation)
        return np.stack([self.surprise.scores_from(row, chosen).score for row in cosines])


class TokenMeasure(Measure):
    """A similarity of bags of tokens, of which there are m, the first item being the query."""

    rounding = 1e-5  # the kernels of token vectors take maxima and sums of float32 products

    def __init__(self, similarity: Similarity, texts: Texts) -> None:
        self.similarity, self.texts = similarity, texts

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        values = [self.similarity.pair(self.texts[a], self.texts[b]) for a, b in pairs]
        return np.array(values, dtype=np.float64)

    def rows(self, first: IntArray) -> Float64Array:
        # A thread for every question: torch's own threads wait for each other in a loop, and beside another
        # busy program that took ten times as long.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(threads) as workers:
                pools = workers.map(lambda i: self.similarity.pool(self.texts[i], self.texts), first.tolist())
                return np.stack(list(pools))
        finally:
            torch.set_num_threads(threads)
