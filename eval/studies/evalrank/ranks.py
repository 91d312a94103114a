"""The rank of a pair (a, b): how many items of a background are more similar to a than b is, at least 1.

(Wang, Kuo and Li, 'Just Rank: Rethinking Evaluation with Word and Sentence Similarities', ACL 2022.) At least
1, because a itself is in the background and is more similar to a than anything else is.

Items whose vectors are equal are one item that counts several times, and what is more similar by no more than
rounding is not more similar: else the last bit of a float32 decides, and with it the number of threads. Words
that a vocabulary lacks have one vector, by the thousand.

`rank` is the definition. `ranks` multiplies blocks of first items with the whole background in float32, and
looks at the scores that this leaves open one by one in float64: it gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, row_norms
from surprise_rerank.encoders.base import Progress
from surprise_rerank.errors import DataError

HITS_AT = tuple(range(1, 16))
# Half a unit in the last place of a float32 at 1: what one rounding is wrong by, relatively.
_UNIT = 2.0**-24
# Products that are in memory together; other scores take longer, and a bar should move.
_BLOCK_PRODUCTS = 1 << 23
_BLOCK_SCORES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Scores as products of vectors: that of a and j is a strictly rising function of <left_a, right_j>.

    Attributes:
        left: (m, k) of every item as the first of a pair.
        right: (m, k) of every item of the background.
    """

    left: Float32Array
    right: Float32Array


class Measure(Protocol):
    """Scores of m items, each as the first of a pair and as one of the background."""

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items, as defined."""
        ...

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a score must exceed to be more than that of the pair, rounding aside."""
        ...

    def product(self) -> Product | None:
        """The scores as products; None where they are none."""
        ...

    def in_product(self, scores: Float64Array) -> Float64Array:
        """(n,) the products that have these scores; not asked where there is no product."""
        ...

    def rows(self, first: IntArray) -> Float64Array:
        """(b, m) scores of b first items and every item."""
        ...


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of n pairs.

    Attributes:
        ranks: (n,) from 1.
    """

    ranks: IntArray

    @cached_property
    def mean(self) -> float:
        """MR, the mean rank."""
        return float(self.ranks.mean())

    @cached_property
    def mean_reciprocal(self) -> float:
        """MRR, the mean of 1 / rank."""
        return float((1.0 / self.ranks).mean())

    def hits(self, k: int) -> float:
        """Hits@k, the share of pairs whose rank is at most k."""
        return float((self.ranks <= k).mean())


def rank(measure: Measure, first: int, second: int, counts: IntArray) -> int:
    """The rank of one pair, as defined: the reference form.

    Args:
        measure: of the items.
        first: the item that the others are compared with.
        second: the item whose rank it is.
        counts: (m,) how often each item is in the background.
    """
    items = np.arange(len(counts))
    scores = measure.scores(np.full(len(items), first), items)
    limit = measure.limits(np.array([first]), np.array([second]))[0]
    return max(1, int(counts[scores > limit].sum()))


def ranks(
    measure: Measure,
    pairs: IntArray,
    counts: IntArray,
    on_progress: Progress | None = None,
    block_scores: int | None = None,
) -> Ranks:
    """The ranks of many pairs: the fast form.

    Args:
        measure: of the items.
        pairs: (n, 2) items, first and second.
        counts: (m,) how often each item is in the background; 0 for one that is not.
        on_progress: called with the number of pairs of every finished block.
        block_scores: how many scores are in memory together; some millions by default.

    Raises:
        DataError: if there are no pairs.
    """
    if not len(pairs):
        raise DataError("there are no pairs to rank; give at least one")
    counter = _Counter(measure, counts, measure.limits(pairs[:, 0], pairs[:, 1]))
    above = np.zeros(len(pairs), dtype=np.int64)
    together = block_scores or (_BLOCK_SCORES if counter.product is None else _BLOCK_PRODUCTS)
    for chosen, first, row_of in _blocks(pairs[:, 0], max(1, together // len(counts))):
        above[chosen] = counter.count(first, chosen, row_of)
        if on_progress is not None:
            on_progress(len(chosen))
    return Ranks(np.maximum(above, 1))


def distinct(vectors: Float32Array) -> tuple[IntArray, IntArray]:
    """Which vectors are equal.

    Args:
        vectors: (n, d).

    Returns:
        (m,) rows of the first ones of each kind, and (n,) for every row the place of its kind among them.
    """
    kinds: dict[bytes, int] = {}
    rows = np.ascontiguousarray(vectors) + np.float32(0)  # which makes 0 of -0
    places = np.fromiter((kinds.setdefault(row.tobytes(), len(kinds)) for row in rows), np.int64, len(rows))
    return np.unique(places, return_index=True)[1], places


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a ranking, once each.

    Attributes:
        plain: (m, d) float32 vectors, centred.
        unit: (m, d) the same, scaled to length 1 where they are known.
        counts: (m,) how often each is in the background; 0 for one that is not.
    """

    plain: Float32Array
    unit: Float32Array
    counts: IntArray

    @classmethod
    def of(cls, plain: Float32Array, unit: Float32Array, background: int) -> tuple[Items, IntArray]:
        """Items of vectors, equal ones as one.

        Args:
            plain: (n, d) centred vectors.
            unit: (n, d) the same at length 1.
            background: how many of them, from the first, are the background.

        Returns:
            The items, and (n,) which one each vector is.
        """
        rows, places = distinct(np.concatenate([plain, unit], axis=1))
        counts = np.bincount(places[:background], minlength=len(rows)).astype(np.int64)
        return cls(plain[rows], unit[rows], counts), places

    @property
    def background(self) -> IntArray:
        """(b,) items of the background, as often as they are in it."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class _Counter:
    """Counts what exceeds the limits of pairs, for a block of first items at a time."""

    def __init__(self, measure: Measure, counts: IntArray, limits: Float64Array) -> None:
        self._measure = measure
        self._counts = counts
        self._limits = limits
        self._several = np.flatnonzero(counts != 1)
        self._extra = counts[self._several] - 1
        self.product = measure.product()
        self._buffer = np.empty((0, 0), np.float32)

    def count(self, first: IntArray, chosen: IntArray, row_of: IntArray) -> IntArray:
        """(c,) numbers of background items before the second item of c pairs.

        Args:
            first: (b,) items, once each.
            chosen: (c,) positions of the pairs that begin with one of these.
            row_of: (c,) which one.
        """
        if self.product is None:
            rows = self._measure.rows(first)
            counted = [self._weighed(rows[r] > self._limits[i]) for i, r in zip(chosen, row_of, strict=True)]
            return np.array(counted, dtype=np.int64)
        return self._count_products(self.product, first, chosen, row_of)

    def _count_products(
        self, product: Product, first: IntArray, chosen: IntArray, row_of: IntArray
    ) -> IntArray:
        shape = (len(first), len(product.right))
        if self._buffer.shape != shape:
            self._buffer = np.empty(shape, np.float32)  # fresh pages for every block would cost as much again
        rows = np.matmul(product.left[first], product.right.T, out=self._buffer)
        limits = self._measure.in_product(self._limits[chosen])
        errors = self._errors[first[row_of]] + 4 * _UNIT * np.abs(limits)
        low, high = (limits - errors).astype(np.float32), (limits + errors).astype(np.float32)
        above = np.zeros(len(chosen), dtype=np.int64)
        unsure = []
        for i, r in enumerate(row_of):
            surely = rows[r] > high[i]
            above[i] = self._weighed(surely)
            unsure.append(np.flatnonzero(surely ^ (rows[r] > low[i])))
        owners = np.repeat(np.arange(len(chosen)), [len(items) for items in unsure])
        items = np.concatenate(unsure)
        exceeds = self._measure.scores(first[row_of[owners]], items) > self._limits[chosen[owners]]
        np.add.at(above, owners[exceeds], self._counts[items[exceeds]])
        return above

    @cached_property
    def _errors(self) -> Float64Array:
        """(m,) by how much a product of a first item may be wrong, and a limit with it."""
        assert self.product is not None
        left, right = self.product.left, self.product.right
        # k roundings of a sum of k products (Higham, 'Accuracy and Stability', section 3.1), and the factors'
        bound = 1.01 * (left.shape[1] + 4) * _UNIT
        return np.asarray(bound * row_norms(left) * row_norms(right).max())

    def _weighed(self, chosen: np.ndarray) -> int:
        """The number of background items where (m,) is true."""
        return int(np.count_nonzero(chosen) + self._extra @ chosen[self._several])


def _blocks(first: IntArray, size: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Pairs with at most `size` different first items: their positions, the items, and each pair's item."""
    items, item_of = np.unique(first, return_inverse=True)
    order = np.argsort(item_of, kind="stable")
    ends = np.searchsorted(item_of[order], np.arange(0, len(items) + size, size))
    for start in range(0, len(items), size):
        chosen = order[ends[start // size] : ends[start // size + 1]]
        yield chosen, items[start : start + size], item_of[chosen] - start
