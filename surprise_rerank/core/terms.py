"""Words of documents as sparse vectors, and similarities of documents by their words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from surprise_rerank import border
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.moments import Moments

TermArray = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class TermBatch:
    """Sparse vectors of n texts in a row.

    Attributes:
        offsets: (n + 1,) where each text's entries begin, and where the last one's end.
        terms: (total,) uint32, distinct within a text: words, or hashes of them.
        values: (total,) float64, the weight of each: BM25's saturated frequency.
    """

    offsets: IntArray
    terms: TermArray
    values: Float64Array

    def __post_init__(self) -> None:
        border.equal("the number of values", len(self.values), len(self.terms), "give one for each term")
        ends = (int(self.offsets[0]), int(self.offsets[-1])) if len(self.offsets) else None
        border.equal("the first and the last offset", ends, (0, len(self.terms)), "count from the first term")
        if (np.diff(self.offsets) < 0).any():
            border.refuse("offsets", self.offsets.tolist(), "ascending", "give where each text begins")

    @classmethod
    def of(cls, texts: Sequence[tuple[Collection[int], Collection[float]]]) -> TermBatch:
        """A batch of (terms, values) pairs, a pair for each text."""
        lengths = [len(own) for own, _ in texts]
        return cls(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.fromiter(chain.from_iterable(own for own, _ in texts), np.uint32),
            np.fromiter(chain.from_iterable(own for _, own in texts), np.float64),
        )

    @classmethod
    def empty(cls, n: int) -> TermBatch:
        """N texts without a term, for texts whose words are not known."""
        return cls(np.zeros(n + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0))

    @classmethod
    def concatenate(cls, batches: Sequence[TermBatch]) -> TermBatch:
        """Several batches in a row."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(b.lengths for b in batches)])
        return cls(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint32), *(b.terms for b in batches)]),
            np.concatenate([np.zeros(0), *(b.values for b in batches)]),
        )

    @property
    def lengths(self) -> IntArray:
        """(n,) number of terms of each text."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> IntArray:
        """(total,) which text each entry is of."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> tuple[TermArray, Float64Array]:
        own = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return self.terms[own], self.values[own]

    def take(self, rows: npt.ArrayLike) -> TermBatch:
        """The texts at these positions, in this order."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        entries = np.arange(lengths.sum()) + np.repeat(self.offsets[chosen] - ends + lengths, lengths)
        return TermBatch(np.concatenate([[0], ends]), self.terms[entries], self.values[entries])


@dataclass(frozen=True, eq=False)
class TermSpace:
    """Documents' terms, weighted by how rare they are in a sample of the corpus, in vectors of length 1.

        x_it = value_it ln(1 + (n - n_t + .5) / (n_t + .5)),   u_i = x_i / |x_i|

    where n_t of the sample's n documents have term t. A sample of some hundred separates frequent terms from
    others, and this is enough: on the development questions it ranked as well as all documents did.
    """

    sample: TermBatch

    def idf(self, terms: TermArray) -> Float64Array:
        """(k,) the inverse document frequency of each of these terms, in the sample."""
        return self._weights[self._columns(terms)]

    def unit(self, batch: TermBatch) -> TermBatch:
        """The vectors u_i; what has no term stays empty."""
        return self._unit(batch, self.idf(batch.terms))

    def _unit(self, batch: TermBatch, idf: Float64Array) -> TermBatch:
        weighted = batch.values * idf
        owners = batch.owners
        lengths = np.sqrt(np.bincount(owners, weighted**2, minlength=len(batch)))
        return TermBatch(batch.offsets, batch.terms, weighted / lengths[owners])

    def to_mixture(self, pool: TermBatch, shares: Float64Array) -> tuple[Float64Array, Moments]:
        """The similarity of each of n texts to a mixture of them by (n,) shares p.

        Returns:
            (n,) u_i . sum_j p_j u_j, NaN for texts without a term; and the moments of the same over the
            sample.
        """
        columns = self._columns(pool.terms)
        own, sample = self._unit(pool, self._weights[columns]), self._sample
        owners, known = own.owners, len(self._known)
        # Terms that the sample lacks have further columns; it is similar to none of them.
        new = np.flatnonzero(columns == known)
        columns[new] += np.unique(own.terms[new], return_inverse=True)[1]
        mixture = np.bincount(columns, own.values * shares[owners], minlength=known)
        near = np.bincount(owners, own.values * mixture[columns], minlength=len(own)).astype(np.float64)
        near[own.lengths == 0] = np.nan
        entries = sample.values * mixture[self._sample_columns]
        usual = np.bincount(sample.owners, entries, minlength=len(sample)).astype(np.float64)
        return near, Moments.of(usual)

    @cached_property
    def _known(self) -> TermArray:
        """(k,) the sample's terms, ascending."""
        return np.unique(self.sample.terms)

    @cached_property
    def _weights(self) -> Float64Array:
        """(k + 1,) the inverse document frequency of each of them, and that of all others."""
        counts = np.bincount(self._sample_columns, minlength=len(self._known) + 1)
        weights: Float64Array = np.log1p((len(self.sample) - counts + 0.5) / (counts + 0.5))
        return weights

    def _columns(self, terms: TermArray) -> IntArray:
        """(n,) where each term is among the sample's; k for all others."""
        known = self._known
        if not len(known):
            return np.zeros(len(terms), np.int64)
        place: IntArray = np.minimum(np.searchsorted(known, terms), len(known) - 1)
        return np.where(known[place] == terms, place, len(known))

    @cached_property
    def _sample_columns(self) -> IntArray:
        return self._columns(self.sample.terms)

    @cached_property
    def _sample(self) -> TermBatch:
        return self.unit(self.sample)
