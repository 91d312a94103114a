"""What every term weighs over the stored documents, and from that the moments of any query's BM25 scores."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank._errors import DataError
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._schema import BM25, Record, to_terms
from surprise_rerank.core._terms import TermArray, TermBatch, inverse_frequencies
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.moments import Moments

_FORMAT = b"terms 2\n"
_HEAD = struct.Struct("<8sqqI")  # the format, points, filled, and a checksum of the rows
_ROW = np.dtype([("terms", "<u4"), ("counts", "<u4"), ("sums", "<f8"), ("squares", "<f8")])
_PENDING = 2**20  # entries that are added up together
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
    def merged(cls, parts: Sequence[TermStatistics]) -> TermStatistics:
        """Of the points of all parts, some of which may be taken off."""
        every = np.concatenate([np.zeros(0, np.uint32), *(part.terms for part in parts)])
        terms, place = np.unique(every, return_inverse=True)

        def summed(name: str) -> Float64Array:
            values = np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
            return np.bincount(place, values, minlength=len(terms)).astype(np.float64)

        return cls(
            sum(part.points for part in parts),
            sum(part.filled for part in parts),
            terms,
            summed("counts").astype(np.int64),
            summed("sums"),
            summed("squares"),
        )

    @classmethod
    def total(cls, parts: Sequence[TermStatistics]) -> TermStatistics:
        """Of the points of all parts; terms that no point has any more are dropped."""
        merged = cls.merged(parts)
        return merged._at(np.flatnonzero(merged.counts > 0), merged.points, merged.filled)

    @classmethod
    def counted(cls, pages: Iterable[Sequence[Record]], vector: str = BM25) -> TermStatistics:
        """Count the terms of the sparse vectors of all points of a scroll."""
        total, parts = cls.total([]), list[TermStatistics]()
        for page in pages:
            parts.append(cls.of(to_terms(page, vector)))
            if sum(len(part.terms) for part in parts) > _PENDING:
                total, parts = cls.total([total, *parts]), []
        return cls.total([total, *parts])

    def weighted(self, query: SparseVector) -> SparseVector:
        """A query with the weights of its terms, w_t = q_t ln(1 + (N - n_t + 1/2) / (n_t + 1/2)).

        That is Qdrant's IDF. Qdrant counts per shard, and while points are moved or after they were deleted,
        some of them twice or in vain. These weights are the same wherever the question is asked.
        """
        return SparseVector(query.indices, (query.values * self._idf(query.indices)).astype(np.float32))

    def moments(self, query: SparseVector, best: Float64Array, *, idf: bool = True) -> Moments:
        """Mean and deviation of a query's scores, s_d = sum_t w_t v_dt with w_t = q_t idf_t, over all points.

            mean     = 1/N sum_t w_t S_t,   S_t = sum_d v_dt
            variance = 1/N (sum_B s_d^2 + sum_R s_d^2) - mean^2
            sum_R s_d^2 = (1 - f) sum_t w_t^2 Q_t + (1 - f)^2 / N ((sum_t w_t S_t)^2 - sum_t (w_t S_t)^2)

        with Q_t the sum of v^2. B are the query's best points, of (b,) known scores; several of its words
        come together in them. f is their share of the sum of all scores. In the others, R, words occur as if
        each knew nothing of the others. 0 and 0 where no point has a term.
        """
        if not len(best):
            return Moments(np.zeros(()), np.zeros(()), members=self.points)
        total = max(self.points, len(best))
        weights = query.values * self._idf(query.indices) if idf else query.values.astype(np.float64)
        sums = weights * self._of(query.indices, self.sums)
        alone = float((weights**2 * self._of(query.indices, self.squares)).sum())
        together = float(sums.sum() ** 2 - (sums**2).sum()) / total
        every = max(float(sums.sum()), float(best.sum()))
        left = 1 - float(best.sum()) / every if every > 0 else 0.0
        square = (float((best**2).sum()) + left * alone + left**2 * together) / total
        variance = square - (every / total) ** 2
        deviation = np.sqrt(variance if variance > _ROUNDING * square else 0.0)
        return Moments(np.asarray(every / total), deviation, members=total)

    def to_bytes(self) -> bytes:
        """The content of a file."""
        rows = np.zeros(len(self.terms), _ROW)
        for name in _ROW.names or ():
            rows[name] = getattr(self, name)
        content = rows.tobytes()
        return _HEAD.pack(_FORMAT, self.points, self.filled, zlib.crc32(content)) + content

    @classmethod
    def from_bytes(cls, content: bytes) -> TermStatistics:
        """Read what `to_bytes` gave; nothing in it is executed.

        Raises:
            DataError: if it is something else, is damaged, or is of another format.
        """
        head, rows = content[: _HEAD.size], content[_HEAD.size :]
        form, points, filled, check = _HEAD.unpack(head.ljust(_HEAD.size))
        if form != _FORMAT or check != zlib.crc32(rows) or len(rows) % _ROW.itemsize:
            raise DataError("not a file of term statistics, or damaged; count them again")
        table = np.frombuffer(rows, _ROW)
        terms, sums, squares = (table[name].copy() for name in ("terms", "sums", "squares"))
        return cls(points, filled, terms, table["counts"].astype(np.int64), sums, squares)

    def among(self, terms: TermArray) -> TermStatistics:
        """Return the statistics of these terms alone, which are distinct and ascending."""
        return self._at(self._places(terms)[1], self.points, self.filled)

    def by_part(self, parts: int) -> dict[int, TermStatistics]:
        """Return the terms by the number of the part that each is in, without the numbers of points."""
        numbers = self.terms % parts
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(parts + 1))
        return {int(i): self._at(order[edges[i] : edges[i + 1]]) for i in np.flatnonzero(np.diff(edges))}

    def _at(self, rows: IntArray, points: int = 0, filled: int = 0) -> TermStatistics:
        arrays = (getattr(self, name)[rows] for name in ("terms", "counts", "sums", "squares"))
        return TermStatistics(points, filled, *arrays)

    def _idf(self, terms: TermArray) -> Float64Array:
        """(m,) of some terms; that of a term that no point has is the largest."""
        return inverse_frequencies(self.filled, self._of(terms, self.counts))

    def _of(self, terms: TermArray, values: IntArray | Float64Array) -> Float64Array:
        """(m,) the values of some terms; 0 for those that are not known."""
        is_known, rows = self._places(terms)
        row = np.zeros(len(terms))
        row[is_known] = values[rows]
        return row

    def _places(self, terms: TermArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """(m,) which of these terms are known, and the rows of those."""
        rows = np.searchsorted(self.terms, terms)
        is_known = rows < len(self.terms)
        is_known[is_known] = self.terms[rows[is_known]] == np.asarray(terms)[is_known]
        return is_known, rows[is_known]
