"""The rank of a pair (a, b) among a background: the items that are more similar to a than b is, at least 1.

(Wang, Kuo and Li, 'Just Rank: Rethinking Evaluation with Word and Sentence Similarities', ACL 2022.) At least
1, because a itself is in the background and is more similar to a than anything else is.

Items whose vectors are equal are one item that counts several times, and what differs by no more than
rounding is equal: else the last bit of a float32 decides, and with it the number of threads. Of items that
are as similar as b half stand before it. Words that a vocabulary lacks have one vector, by the thousand:
among them b has the rank of chance, so that a model gains nothing by knowing few words. Published figures
count none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.encoders.base import Progress

# Scores that are in memory together.
_BLOCK = 1 << 21


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
    block: int = _BLOCK,
) -> Float64Array:
    """(n,) ranks of (n, 2) pairs of items, from 1; halves where items are equal.

    Args:
        measure: of the items.
        pairs: first and second.
        counts: (m,) how often each item is in the background; 0 for one that is not.
        on_progress: called with the number of pairs of every finished block.
        block: how many scores are in memory together.
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


def distinct(vectors: Float32Array) -> tuple[IntArray, IntArray]:
    """(m,) rows of the first ones of each kind of equal vectors, and (n,) the place of each row's kind."""
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
        """Items of vectors, equal ones as one; and (n,) which one each vector is.

        Args:
            plain: (n, d) centred vectors.
            unit: (n, d) the same at length 1.
            background: how many of them, from the first, are the background.
        """
        rows, places = distinct(np.concatenate([plain, unit], axis=1))
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
