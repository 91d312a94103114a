"""Term statistics that stay right while points are added, replaced and deleted.

They are a file beside the points. While somebody writes, a mark stands in its place, so that a killed process
leaves no statistics of other points behind: whoever needs them next counts again, in one scroll. Who reads a
folder writes nothing there: it counts for itself.

Several processes may write to one collection on a server. Each sets its own mark, and replaces it by
statistics only if no other mark was there before or came meanwhile. Who asks meanwhile keeps what it knows
until a fifth of the points has come or gone.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from surprise_rerank.connectors.qdrant.engines.base import Engine
from surprise_rerank.connectors.qdrant.engines.retries import CollectionGone, TooLarge
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    Payload,
    Point,
    PointId,
    to_terms,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.connectors.qdrant.storage.files import digest_of
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.errors import DataError, StoreError

FILE = "terms.npz"

_CHANGING = b"changing "  # and who does
_STALE = b"stale"  # nobody writes, and the statistics are not known
_PENDING = 2**20  # entries that are added up together
_PATIENCE = 2.0  # seconds until a reader looks, in a request of 1 ms, whether there are other statistics
_LATER = 60.0  # seconds more, where it could not look
_MUCH = 0.2  # share of the points: with a fifth more, an IDF changes by less than .2
_DELETED = 1000  # points that are looked up together before they are deleted


class KeptTerms:
    """The term statistics of one version of an index. Threads may share it.

    Args:
        storage: of the version; it stores sparse vectors.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.RLock()
        self._known: TermStatistics | None = None
        self._pending: list[TermStatistics] = []
        self._mark: bytes | None = None  # ours, while we write
        self._seen, self._is_guess = "", True  # digest of what was last there; whether it tells too little
        self._is_shared = False  # whether another process wrote when the statistics were read
        self._looked = 0.0

    def statistics(self) -> TermStatistics:
        """The statistics of all points; counted in one scroll where none are stored that fit.

        Counted ones are stored on a server, if that is allowed and nobody else writes.
        """
        with self._lock:
            if self._known is None or self._is_outdated():
                self._known = self._read(storing=True)
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
            if self._mark is not None:
                self._end(known=not writer.is_lost)

    def begin(self) -> None:
        """Before the first change: know what there is, and set the mark."""
        with self._lock:
            if self._mark is not None:
                return
            if self._known is None or not self._is_alone:  # others may have written since it was read
                self._known = self._read(storing=False)
            self._storage.engine.claim()  # the mark is not for readers
            mark = _CHANGING + uuid.uuid4().hex.encode()
            self._write(mark)
            self._mark = mark

    def change(self, added: TermBatch, removed: TermBatch) -> None:
        """Points were stored in place of others."""
        with self._lock:
            self._pending += [TermStatistics.of(added), TermStatistics.of(removed, -1)]
            if sum(len(part.terms) for part in self._pending) > _PENDING:
                self.statistics()

    def _end(self, *, known: bool) -> None:
        with self._lock:
            statistics = self.statistics()
            self._mark = None
            # A store that cannot be written keeps the mark. What was done to its points stands.
            with suppress(StoreError):
                if known and not self._is_shared and self._storage.holds(FILE, self._seen):
                    self._write(statistics.to_bytes())
                    return
                self._known = None
                self._write(_STALE)

    @property
    def _is_alone(self) -> bool:
        """Whether no other process can change it while it is open here."""
        return self._storage.engine.kind != "server"

    def _is_outdated(self) -> bool:
        """Whether other processes have stored other statistics, or none and much else."""
        if self._is_alone or self._mark is not None or time.monotonic() < self._looked + _PATIENCE:
            return False
        self._looked = time.monotonic()
        assert self._known is not None
        try:
            if not self._storage.holds(FILE, self._seen):
                return True
        except CollectionGone:  # the index was rebuilt; what counts finds the version in use
            return True
        except StoreError:  # a question needs the points, and does not fail for newer statistics
            self._looked += _LATER
            return False
        return self._is_guess and not _is_near(self._known, self._count())

    def _read(self, *, storing: bool) -> TermStatistics:
        """The stored statistics, or new ones, which are stored if that is asked for and allowed."""
        self._looked = time.monotonic()
        self._is_guess = True
        count = self._count()  # first: it finds the version in use
        before = self._storage.read_file(FILE) or b""
        self._seen = digest_of(before or None)
        is_written = before.startswith(_CHANGING) and not self._is_alone
        self._is_shared = is_written
        if is_written:
            if self._known is not None and _is_near(self._known, count):
                return self._known
        else:
            with suppress(DataError):
                stored = TermStatistics.from_bytes(before)
                if stored.points == count:
                    self._is_guess = False
                    return stored
        counted = self._counted()
        # A user who may not write searches all the same. An index that is empty is about to be filled.
        with suppress(StoreError):
            is_shown = storing and count and not self._is_alone and not self._is_shared
            if is_shown and self._storage.holds(FILE, self._seen):
                self._write(counted.to_bytes())
        return counted

    def _write(self, content: bytes) -> None:
        self._storage.write_file(FILE, content)
        self._seen = digest_of(content)
        self._is_guess = content.startswith((_CHANGING, _STALE))

    def _count(self) -> int:
        return self._storage.engine.count()

    def _counted(self) -> TermStatistics:
        total, parts = TermStatistics.total([]), list[TermStatistics]()
        for records in self._storage.engine.scroll((), (BM25,)):
            parts.append(TermStatistics.of(to_terms(records)))
            if sum(len(part.terms) for part in parts) > _PENDING:
                total, parts = TermStatistics.total([total, *parts]), []
        return TermStatistics.total([total, *parts])


def _is_near(statistics: TermStatistics, points: int) -> bool:
    return abs(points - statistics.points) <= _MUCH * statistics.points


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
