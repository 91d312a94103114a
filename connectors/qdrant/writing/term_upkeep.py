"""Term statistics that stay right while points are added, replaced and deleted.

They are a file beside the points. While somebody writes, a mark stands in its place, so that a killed process
leaves no statistics of other points behind: whoever needs them next counts again, in one scroll. The same
happens for an index that was made before there were such files.

Several processes may write to one collection on a server. Each sets its own mark, and replaces it by
statistics only if no other has set one meanwhile.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from surprise_rerank.connectors.qdrant.engines.base import Engine
from surprise_rerank.connectors.qdrant.engines.retries import TooLarge
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    ID,
    WITH_VECTORS,
    Payload,
    Point,
    PointId,
    to_terms,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.errors import DataError, StoreError

FILE = "terms.npz"

_CHANGING = b"changing "  # and who does
_STALE = b"stale"  # nobody writes, and the statistics are not known
_PENDING = 2**20  # entries that are added up together
_PATIENCE = 60.0  # seconds until a reader looks whether other processes have stored much
_MUCH = 0.1  # share of the points: with a tenth more, an IDF changes by less than .1
_DELETED = 1000  # points that are looked up together before they are deleted


class PointWriter(Protocol):
    """What changes points, such as an `Engine`."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        ...

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        ...

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points."""
        ...


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
        self._looked = 0.0

    def statistics(self) -> TermStatistics:
        """The statistics of all points; counted in one scroll where none are stored that fit.

        Counted ones are stored, if that is allowed and nobody else writes.

        Raises:
            StoreError: if the store cannot be read.
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
        writer = _Counted(self._storage.engine, self)
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
            self._storage.write_file(FILE, mark)
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
            mark, self._mark = self._mark, None
            # A store that cannot be written keeps the mark. What was done to its points stands.
            with suppress(StoreError):
                if known and self._storage.read_file(FILE) == mark:
                    self._storage.write_file(FILE, statistics.to_bytes())
                    return
                self._known = None
                self._storage.write_file(FILE, _STALE)

    @property
    def _is_alone(self) -> bool:
        """Whether no other process can change it while it is open here."""
        return self._storage.engine.kind != "server"

    def _is_outdated(self) -> bool:
        """Whether other processes have stored or deleted much since the statistics were read."""
        if self._is_alone or self._mark is not None or time.monotonic() < self._looked + _PATIENCE:
            return False
        self._looked = time.monotonic()
        assert self._known is not None
        return abs(self._count() - self._known.points) > _MUCH * self._known.points

    def _read(self, *, storing: bool) -> TermStatistics:
        """The stored statistics, or new ones, which are stored if that is asked for and allowed."""
        self._looked = time.monotonic()
        before = self._storage.read_file(FILE)
        with suppress(DataError):
            stored = TermStatistics.from_bytes(before or b"")
            if stored.points == self._count():
                return stored
        counted = self._counted()
        is_written = before is not None and before.startswith(_CHANGING) and not self._is_alone
        # A user who may not write searches all the same.
        with suppress(StoreError):
            if storing and not is_written and self._storage.read_file(FILE) == before:
                self._storage.write_file(FILE, counted.to_bytes())
        return counted

    def _count(self) -> int:
        return self._storage.engine.count(WITH_VECTORS)

    def _counted(self) -> TermStatistics:
        total, parts = TermStatistics.total([]), list[TermStatistics]()
        for records in self._storage.engine.scroll((), (BM25,), condition=WITH_VECTORS):
            parts.append(TermStatistics.of(to_terms(records)))
            if sum(len(part.terms) for part in parts) > _PENDING:
                total, parts = TermStatistics.total([total, *parts]), []
        return TermStatistics.total([total, *parts])


class _Counted:
    """Changes points, and tells what terms came and went."""

    def __init__(self, points: Engine, kept: KeptTerms) -> None:
        self._points, self._kept = points, kept
        self.is_lost = False  # whether a change failed, so that nobody knows what is stored

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        found = [point for point in points if point.vectors]
        with self._change():
            before = self._points.retrieve([str(point.id) for point in found], (), (BM25,))
            self._points.upsert(points)
            self._kept.change(to_terms(found), to_terms(before))

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points."""
        for start in range(0, len(point_ids), _DELETED):
            part = point_ids[start : start + _DELETED]
            with self._change():
                before = self._points.retrieve(part, (ID,), (BM25,))
                self._points.delete(part)
                # The points of packed tokens have no document's id.
                self._kept.change(TermBatch.empty(0), to_terms([r for r in before if ID in r.payload]))

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points, which have no terms."""
        self._points.set_payloads(changes)

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._kept.begin()
        try:
            yield
        except TooLarge:
            raise  # nothing was stored
        except BaseException:
            self.is_lost = True
            raise
