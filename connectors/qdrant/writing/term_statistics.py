"""What every term weighs over the stored documents, and from that the moments of any query's BM25 scores."""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.connectors.qdrant.engines import Engine
from surprise_rerank.connectors.qdrant.engines.retries import CollectionGone, TooLarge
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    Payload,
    Point,
    PointId,
    Record,
    to_terms,
)
from surprise_rerank.connectors.qdrant.storage import Storage
from surprise_rerank.connectors.qdrant.storage.files import digest_of
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.files import UNREADABLE_ARCHIVE
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.process import PerProcess
from surprise_rerank.core.terms import TermArray, TermBatch
from surprise_rerank.errors import DataError, StoreError

FILE = "terms.npz"

_FORMAT = 1
_CHANGING = b"changing "  # and who does
_STALE = b"stale"  # nobody writes, and the statistics are not known
_PENDING = 2**20  # entries that are added up together
_PATIENCE = 2.0  # seconds until a reader looks, in a request of 1 ms, whether there are other statistics
_LATER = 60.0  # seconds more, where it could not look
_DELETED = 1000  # points that are looked up together before they are deleted
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

    @classmethod
    def counted(cls, pages: Iterable[Sequence[Record]], vector: str = BM25) -> TermStatistics:
        """Of the sparse vectors of all points of a scroll."""
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

    def has_one_of(self, query: SparseVector) -> bool:
        """Whether a point has a term of a query."""
        return bool(np.isin(np.asarray(query.indices, np.uint32), self.terms).any())

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


class KeptTerms:
    """The term statistics of one version of an index, kept right while points change. Threads may share it.

    They are a file beside the points. While somebody writes, a mark stands in its place, so that a killed
    process leaves no statistics of other points: whoever needs them next counts again, in one scroll. Of
    several writers on a server none stores its own, unless its mark is still there at the end.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = PerProcess(threading.RLock)
        self._known: TermStatistics | None = None
        self._pending: list[TermStatistics] = []
        self._is_changing = False  # whether our mark is set
        self._seen = ""  # digest of what was last there
        self._looked = 0.0

    def statistics(self) -> TermStatistics:
        """The statistics of all points; counted where none are stored that fit, and stored on a server."""
        with self._lock.get():
            if self._known is None or self._is_outdated():
                self._known = self._read()
            if self._pending:
                self._known = TermStatistics.total([self._known, *self._pending])
                self._pending.clear()
            return self._known

    @contextmanager
    def changing(self) -> Iterator[PointWriter]:
        """Something to change points by, in one thread at a time; at the end the statistics are stored."""
        writer = PointWriter(self._storage.engine, self)
        try:
            yield writer
        finally:
            if self._is_changing:
                self._end(counted=not writer.is_lost)

    def begin(self) -> None:
        """Before the first change: know what there is, and set the mark."""
        with self._lock.get():
            if self._is_changing:
                return
            if self._known is None or not self._is_alone:  # others may have written since it was read
                self._known = self._read()
            self._storage.engine.claim()  # the mark is not for readers
            self._write(_CHANGING + uuid.uuid4().hex.encode())
            self._is_changing = True

    def change(self, added: TermBatch, removed: TermBatch) -> None:
        """Points were stored in place of others."""
        with self._lock.get():
            self._pending += [TermStatistics.of(added), TermStatistics.of(removed, -1)]
            if sum(len(part.terms) for part in self._pending) > _PENDING:
                self.statistics()

    def _end(self, *, counted: bool) -> None:
        with self._lock.get():
            statistics = self.statistics()
            self._is_changing = False
            # A store that cannot be written keeps the mark. What was done to its points stands.
            with suppress(StoreError):
                if counted and self._storage.holds(FILE, self._seen):
                    self._write(statistics.to_bytes())
                    return
                self._known = None
                self._write(_STALE)

    @property
    def _is_alone(self) -> bool:
        """Whether no other process can change it while it is open here."""
        return self._storage.engine.kind != "server"

    def _is_outdated(self) -> bool:
        """Whether other processes have stored something else."""
        if self._is_alone or self._is_changing or time.monotonic() < self._looked + _PATIENCE:
            return False
        self._looked = time.monotonic()
        try:
            return not self._storage.holds(FILE, self._seen)
        except CollectionGone:  # the index was rebuilt; what counts finds the version in use
            return True
        except StoreError:  # a question needs the points, and does not fail for newer statistics
            self._looked += _LATER
            return False

    def _read(self) -> TermStatistics:
        """The stored statistics, or new ones; while another process writes, those that are known."""
        self._looked = time.monotonic()
        count = self._storage.engine.count()  # first: it finds the version in use
        before = self._storage.read_file(FILE) or b""
        self._seen = digest_of(before or None)
        is_written = before.startswith(_CHANGING) and not self._is_alone
        if is_written and self._known is not None:
            return self._known
        with suppress(DataError):
            stored = TermStatistics.from_bytes(before)
            if stored.points == count:
                return stored
        counted = TermStatistics.counted(self._storage.engine.scroll((), (BM25,)))
        # Who may not write searches all the same. Who reads a folder writes nothing there.
        with suppress(StoreError):
            is_shown = count and not self._is_alone and not is_written
            if is_shown and self._storage.holds(FILE, self._seen):
                self._write(counted.to_bytes())
        return counted

    def _write(self, content: bytes) -> None:
        self._storage.write_file(FILE, content)
        self._seen = digest_of(content)


class PointWriter:
    """Changes points, and tells what terms came and went, where these are counted."""

    def __init__(self, points: Engine, kept: KeptTerms | None) -> None:
        self._points, self._kept = points, kept
        self.is_lost = False  # whether a change failed, so that nobody knows what is stored

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        if self._kept is None:
            self._points.upsert(points)
            return
        with self._change(self._kept):
            before = self._points.retrieve([str(point.id) for point in points], (), (BM25,))
            self._points.upsert(points)
            self._kept.change(to_terms(points), to_terms(before))

    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points."""
        if self._kept is None:
            self._points.delete(point_ids)
            return
        for start in range(0, len(point_ids), _DELETED):
            part = point_ids[start : start + _DELETED]
            with self._change(self._kept):
                before = self._points.retrieve(part, (), (BM25,))
                self._points.delete(part)
                self._kept.change(TermBatch.empty(0), to_terms(before))

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points, which have no terms."""
        self._points.set_payloads(changes)

    @contextmanager
    def _change(self, kept: KeptTerms) -> Iterator[None]:
        kept.begin()
        try:
            yield
        except TooLarge:
            raise  # nothing was stored
        except BaseException:
            self.is_lost = True
            raise
