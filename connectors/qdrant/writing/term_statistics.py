"""What every term weighs over the stored documents, and from that the moments of any query's BM25 scores."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.files import UNREADABLE_ARCHIVE
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermArray, TermBatch
from surprise_rerank.errors import DataError

_FORMAT = 1
_SLIGHT = 1e-3  # of the largest singular value: what is below it is not told from float32's rounding
_ROUNDING = 1e-12  # of a mean square: a variance below it is that of equal scores


@dataclass(frozen=True, slots=True, eq=False)
class TermStatistics:
    """Sums over points, which are documents, or passages where documents are split.

    N points are filled: they have a term, as the IDF counts. Of each of k terms, ascending uint32, there are
    n_t, how many points have it, and the sums of its values and of their squares.
    """

    points: int
    filled: int
    terms: TermArray
    counts: IntArray
    sums: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, points: TermBatch, sign: int = 1) -> TermStatistics:
        """Of some points; with the sign -1 as what is to be taken off."""
        terms, place = np.unique(points.terms, return_inverse=True)
        values, k = points.values, len(terms)
        return cls(
            sign * len(points),
            sign * int(np.count_nonzero(points.lengths)),
            terms,
            sign * np.bincount(place, minlength=k).astype(np.int64),
            sign * np.bincount(place, values, minlength=k).astype(np.float64),
            sign * np.bincount(place, values**2, minlength=k).astype(np.float64),
        )

    @classmethod
    def total(cls, parts: Sequence[TermStatistics]) -> TermStatistics:
        """Of the points of all parts; terms that no point has any more are dropped."""
        every = np.concatenate([np.zeros(0, np.uint32), *(part.terms for part in parts)])
        terms, place = np.unique(every, return_inverse=True)

        def summed(name: str) -> Float64Array:
            values = np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
            return np.bincount(place, values, minlength=len(terms)).astype(np.float64)

        counts = summed("counts").astype(np.int64)
        kept = counts > 0
        return cls(
            sum(part.points for part in parts),
            sum(part.filled for part in parts),
            terms[kept],
            counts[kept],
            summed("sums")[kept],
            summed("squares")[kept],
        )

    def weighted(self, query: SparseVector) -> SparseVector:
        """A query with the weights of its terms, w_t = q_t ln(1 + (N - n_t + 1/2) / (n_t + 1/2)).

        That is Qdrant's IDF. Qdrant counts per shard, and while points are moved or after they were deleted,
        some of them twice or in vain. These weights are the same wherever the question is asked.
        """
        return SparseVector(query.indices, (query.values * self._idf(query.indices)).astype(np.float32))

    def moments(
        self, query: SparseVector, best: TermBatch, scores: Float64Array, *, idf: bool = True
    ) -> Moments:
        """Mean and deviation of a query's scores, s_d = sum_t w_t v_dt with w_t = q_t idf_t, over all points.

            mean     = 1/N sum_t w_t S_t,   S_t = sum_d v_dt
            variance = 1/N (sum_B s_d^2 + sum_R s_d^2) - mean^2
            sum_R s_d^2 = sum_t w_t^2 Q'_t + (  (sum_t w_t S'_t)^2 - sum_t (w_t S'_t)^2  ) / |R|

        The sum of squares is exact over B, the query's b best points, which have several of its words. In the
        others, R, words occur as if each knew nothing of the others; S' and Q', the sums of v and v^2 over R,
        are what B leaves of those over all points. Words independent in all points would make the deviation a
        tenth to a fifth too small. Where Qdrant multiplies with its own IDF, which may count deleted points,
        w is the smallest change of ours that brings out the (b,) scores of B. 0 and 0 where no point has a
        term.
        """
        if not len(best):
            return Moments(np.zeros(()), np.zeros(()), members=self.points)
        total = max(self.points, len(best))
        own = _columns(query.indices, best)
        sums = np.maximum(self._of(query.indices, self.sums), own.sum(axis=0))
        squares = np.maximum(self._of(query.indices, self.squares), (own**2).sum(axis=0))
        weights = query.values.astype(np.float64)
        if idf:
            weights *= self._idf(query.indices)
            weights += np.linalg.lstsq(own, scores - own @ weights, rcond=_SLIGHT)[0]
        else:
            scores = own @ weights  # which Qdrant has rounded
        left = weights * (sums - own.sum(axis=0))
        left_squares = weights**2 * (squares - (own**2).sum(axis=0))
        together = (left.sum() ** 2 - (left**2).sum()) / max(total - len(best), 1)
        mean = float(weights @ sums) / total
        square = float((scores**2).sum() + left_squares.sum() + together) / total
        variance = square - mean**2
        deviation = np.sqrt(variance if variance > _ROUNDING * square else 0.0)
        return Moments(np.asarray(mean), deviation, members=total)

    def to_bytes(self) -> bytes:
        """The content of a file."""
        file = io.BytesIO()
        numbers = np.array([_FORMAT, self.points, self.filled], np.int64)
        np.savez(file, numbers=numbers, **{name: getattr(self, name) for name in _ARRAYS})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> TermStatistics:
        """Read what `to_bytes` gave; nothing in it is executed.

        Raises:
            DataError: if it is something else, is damaged, or is of another format.
        """
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                form, points, filled = stored["numbers"].tolist()
                arrays = {name: stored[name].astype(kind) for name, kind in _ARRAYS.items()}
        except UNREADABLE_ARCHIVE as error:
            raise DataError("not a file of term statistics; count them again") from error
        if form != _FORMAT or len({array.shape for array in arrays.values()}) > 1:
            raise DataError("term statistics of another format, or damaged; count them again")
        return cls(points, filled, **arrays)

    def _idf(self, terms: TermArray) -> Float64Array:
        """(m,) of some terms; that of a term that no point has is the largest."""
        counts = self._of(terms, self.counts)
        return np.log1p((self.filled - counts + 0.5) / (counts + 0.5))

    def _of(self, terms: TermArray, values: IntArray | Float64Array) -> Float64Array:
        """(m,) the values of some terms; 0 for those that are not known."""
        if not len(self.terms):
            return np.zeros(len(terms))
        place = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
        return np.where(self.terms[place] == terms, values[place], 0.0)


_ARRAYS: dict[str, npt.DTypeLike] = {
    "terms": np.uint32,
    "counts": np.int64,
    "sums": np.float64,
    "squares": np.float64,
}


def _columns(terms: TermArray, points: TermBatch) -> Float64Array:
    """(n, m) the value of each of m ascending terms in each point."""
    values = np.zeros((len(points), len(terms)))
    if len(terms):
        place = np.minimum(np.searchsorted(terms, points.terms), len(terms) - 1)
        known = terms[place] == points.terms
        values[points.owners[known], place[known]] = points.values[known]
    return values
