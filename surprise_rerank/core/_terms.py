"""Words of documents as sparse vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from surprise_rerank.core._ragged import Ragged, offsets_of
from surprise_rerank.core.arrays import Float64Array, IntArray

TermArray = npt.NDArray[np.uint32]


def inverse_frequencies(documents: int, counts: npt.ArrayLike) -> Float64Array:
    """(m,) ln(1 + (N - n + .5) / (n + .5)), where n of N documents have a term: BM25's form, always above 0.

    Fewer documents than a count are taken for as many: a reader may have their number of a moment before.
    """
    n = np.asarray(counts, np.float64)
    return np.asarray(np.log1p((np.maximum(documents - n, 0) + 0.5) / (n + 0.5)))


@dataclass(frozen=True, slots=True, eq=False)
class TermBatch(Ragged):
    """Sparse vectors of n texts in a row.

    Attributes:
        offsets: (n + 1,) where each text's entries begin, and where the last one's end.
        terms: (total,) uint32, distinct within a text: words, or hashes of them.
        values: (total,) float64, the weight of each: BM25's saturated frequency.
    """

    offsets: IntArray
    terms: TermArray
    values: Float64Array

    @classmethod
    def of(cls, texts: Sequence[tuple[Collection[int], Collection[float]]]) -> TermBatch:
        """A batch of (terms, values) pairs, a pair for each text."""
        lengths = [len(terms) for terms, _ in texts]
        return cls(
            offsets_of(np.array(lengths, np.int64)),
            np.fromiter(chain.from_iterable(terms for terms, _ in texts), np.uint32),
            np.fromiter(chain.from_iterable(values for _, values in texts), np.float64),
        )

    @classmethod
    def empty(cls, n: int) -> TermBatch:
        """N texts without a term, for texts whose words are not known."""
        return cls(np.zeros(n + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0))

    def __getitem__(self, i: int) -> tuple[TermArray, Float64Array]:
        entries = self.rows_between(i, i + 1)
        return self.terms[entries], self.values[entries]
