"""Bringing a collection up to date: only what changed is encoded, and nothing that was stored is lost.

The next window of documents is encoded while a thread stores the one before. The queue between them is
short, so that a slow store slows the encoder down instead of filling the memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias, TypeVar

from surprise_rerank.connectors.qdrant.engines import Engine
from surprise_rerank.connectors.qdrant.points import Piece, PointMaker
from surprise_rerank.connectors.qdrant.retries import CollectionGone, TooLarge
from surprise_rerank.connectors.qdrant.schema import (
    HASH,
    ID,
    INCOMPLETE,
    NUMBER,
    PASSAGES,
    WITH_VECTORS,
    Payload,
    Point,
    point_id,
    stored_hash,
    tokens_id,
)
from surprise_rerank.documents import Document
from surprise_rerank.encoders import Encoded
from surprise_rerank.errors import DataError, IndexingError, StoreError

T = TypeVar("T")
_Unit: TypeAlias = tuple[Point, ...]  # what is stored of a document or a passage; its own point is the last
_Named: TypeAlias = tuple[str, _Unit]  # with the document's id

# Documents whose state is looked up together, and that are sorted by length: like lengths pad little.
_CHUNK = 8192
# Texts are encoded a window at a time: an interruption loses two, and float32 tokens stay under 50 MiB.
_WINDOW = 128
_UPSERT_UNITS = 64
_UPSERT_BYTES = 8 * 2**20  # a quarter of what a Qdrant server accepts in one request
_QUEUED = 2
_NAMED = 5  # ids that an error shows


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `DocumentIndex.sync` did.

    Attributes:
        added: documents that were new.
        updated: documents whose text or metadata had changed.
        unchanged: documents that were there already and were not encoded again.
        removed: stored documents that were no longer in the collection.
        split: how many of the added and updated ones are stored as several passages.
    """

    added: int
    updated: int
    unchanged: int
    removed: int
    split: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a stored document: its hash, and the number of its passages, 1 where it is whole."""

    hash: str
    passages: int


@dataclass(frozen=True, slots=True)
class _Job:
    """A document to store: a unit for each of its passages, and how many it had before."""

    document: Document
    units: Sequence[_Unit]
    before: int


@dataclass(slots=True)
class _Counts:
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    split: int = 0


@dataclass(slots=True)
class Indexer:
    """One pass over a collection of documents.

    Attributes:
        engine: where they are stored.
        maker: makes their points.
        on_progress: called with the number of documents of every finished part.
    """

    engine: Engine
    maker: PointMaker
    on_progress: Callable[[int], None] | None = None
    _counts: _Counts = field(default_factory=_Counts)
    _seen: dict[str, None] = field(default_factory=dict)  # ids, in their order

    def run(
        self, documents: Iterable[Document], *, prune: bool = False, encoded: Encoded | None = None
    ) -> SyncReport:
        """Store what is new or changed; see `DocumentIndex.sync`."""
        known = dict(self._all_stored()) if prune else None
        source = iter(documents)
        row = 0
        with _Writer(self.engine) as writer:
            while chunk := list(islice(source, _CHUNK)):
                try:
                    part = None if encoded is None else slice_encoded(encoded, row, len(chunk))
                    self._chunk(chunk, known, part, writer)
                    row += len(chunk)
                except _StoppedError:
                    # Ids that follow are told where that needs no reading of a stream that may have no end.
                    rest = [d.id for d in source] if isinstance(documents, Sequence) else []
                    writer.give_up(self._seen, rest)
            writer.finish(self._seen)
            self._told(writer)
        removed = self._prune(known) if known is not None else 0
        if removed or self._counts.added or self._counts.updated:
            self.engine.finish()
        done = self._counts
        return SyncReport(done.added, done.updated, done.unchanged, removed, done.split)

    def _chunk(
        self,
        documents: Sequence[Document],
        known: Mapping[str, Stored] | None,
        encoded: Encoded | None,
        writer: _Writer,
    ) -> None:
        self._require_unique(documents)
        writer.expect([d.id for d in documents])
        # This also finds what cannot be stored before anything is encoded.
        hashes = [stored_hash(d) for d in documents]
        stored = known if known is not None else self._stored(documents, writer)
        current = {d.id for d, own in zip(documents, hashes, strict=True) if _hash(stored, d.id) == own}
        rows = [i for i, d in enumerate(documents) if d.id not in current]
        writer.acknowledge(current, done=0)
        unchanged = len(current)
        self._counts.unchanged += unchanged
        self._report(unchanged)
        rows.sort(key=lambda i: -len(documents[i].content))
        for window in self._windows(rows, documents):
            pieces = [piece for own in window.values() for piece in own]
            vectors = self._encode(pieces, list(window), encoded)
            units = iter(self.maker.points(pieces, vectors))
            jobs = []
            for i, own in window.items():
                before = stored.get(documents[i].id)
                passages = before.passages if before else 0
                jobs.append(_Job(documents[i], list(islice(units, len(own))), passages))
                self._counts.updated += before is not None
                self._counts.added += before is None
                self._counts.split += len(own) > 1
            writer.put(jobs)
            self._told(writer)

    def _windows(
        self, rows: Sequence[int], documents: Sequence[Document]
    ) -> Iterator[dict[int, list[Piece]]]:
        """Row -> pieces, of about `_WINDOW` pieces each; a document's pieces stay together."""
        window: dict[int, list[Piece]] = {}
        size = 0
        for start in range(0, len(rows), _WINDOW):
            part = rows[start : start + _WINDOW]
            for i, own in zip(part, self.maker.pieces([documents[i] for i in part]), strict=True):
                if window and size + len(own) > _WINDOW:
                    yield window
                    window, size = {}, 0
                window[i] = own
                size += len(own)
        if window:
            yield window

    def _encode(self, pieces: Sequence[Piece], rows: Sequence[int], encoded: Encoded | None) -> Encoded:
        if encoded is None:
            return self.maker.encoder.encode([piece.text for piece in pieces], kind="document")
        if len(pieces) != len(rows):
            longest = next(piece for piece in pieces if piece.count > 1)
            raise DataError(
                f"document {longest.document.id!r} is longer than the model reads and would be split, but "
                "its vector was given; make the index with passages=None, or have it encode the documents"
            )
        return Encoded(encoded.dense[list(rows)], encoded.tokens.take(rows))

    def _require_unique(self, documents: Sequence[Document]) -> None:
        for document in documents:
            if not document.id:
                raise DataError(f"a document has an empty id (its text begins {document.text[:40]!r})")
            if document.id in self._seen:
                raise DataError(f"the document id {document.id!r} stands twice; ids must be unique")
            self._seen[document.id] = None

    def _all_stored(self) -> Iterator[tuple[str, Stored]]:
        for batch in self.engine.scroll((ID, HASH, PASSAGES, NUMBER), batch=5000, condition=WITH_VECTORS):
            for record in batch:
                if record.payload.get(NUMBER, 0) == 0:
                    yield record.payload[ID], _stored(record.payload)

    def _stored(self, documents: Sequence[Document], writer: _Writer) -> dict[str, Stored]:
        found = writer.asking(
            lambda: self.engine.retrieve([point_id(d.id) for d in documents], (ID, HASH, PASSAGES))
        )
        return {record.payload[ID]: _stored(record.payload) for record in found}

    def _prune(self, known: Mapping[str, Stored]) -> int:
        gone = sorted(name for name in known if name not in self._seen)
        self.engine.delete([p for name in gone for p in points_of(name, range(known[name].passages))])
        return len(gone)

    def _told(self, writer: _Writer) -> None:
        self._report(writer.take_done())

    def _report(self, count: int) -> None:
        if self.on_progress is not None and count:
            self.on_progress(count)


class _StoppedError(Exception):
    """The writer has met an error; it is raised when what is missing is known."""


class _Writer:
    """A thread that stores windows in their order; an error stops it, and is raised as an `IndexingError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.Queue[Sequence[_Job] | None] = queue.Queue(_QUEUED)
        self._thread = threading.Thread(target=self._run, name="surprise-rerank-writer", daemon=True)
        self._error: BaseException | None = None
        self._missing: dict[str, None] = {}  # ids that are not known to be stored, in their order
        self._oversized: dict[str, str] = {}  # id -> why no request holds it
        self._done = 0
        self._lock = threading.Lock()

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an interruption: what is encoded is stored.
        self._stop()

    def put(self, jobs: Sequence[_Job]) -> None:
        """Hand over a window; waits while the queue is full."""
        if self._error is not None:
            raise _StoppedError
        self._queue.put(jobs)

    def expect(self, names: Sequence[str]) -> None:
        """These documents are to be stored, unless they are acknowledged."""
        with self._lock:
            self._missing.update(dict.fromkeys(names))

    def acknowledge(self, names: set[str], done: int) -> None:
        """These documents are stored, of which `done` are to be reported."""
        with self._lock:
            for name in names:
                self._missing.pop(name, None)
            self._done += done

    def asking(self, request: Callable[[], list[T]]) -> list[T]:
        """What a request of the main thread gives; its failure counts as the writer's."""
        try:
            return request()
        except StoreError as error:
            self._error = self._error or error
            raise _StoppedError from error

    def take_done(self) -> int:
        """How many documents were stored since the last call."""
        with self._lock:
            done, self._done = self._done, 0
        return done

    def finish(self, seen: Iterable[str]) -> None:
        """Wait until everything is stored.

        Args:
            seen: ids of all documents.

        Raises:
            IndexingError: if something is not.
        """
        self._stop()
        if self._error is not None:
            self.give_up(seen, [])
        if self._oversized:
            name, reason = next(iter(self._oversized.items()))
            raise IndexingError(
                f"{_named(list(self._oversized))} not stored: {reason}; all others are stored "
                f"(shorten {name!r}, or raise the server's limit)",
                list(self._oversized),
            )

    def give_up(self, seen: Iterable[str], rest: Sequence[str]) -> None:
        """Raise the error, with the ids that are not known to be stored.

        Args:
            seen: ids of all documents so far.
            rest: ids of those that were not looked at.

        Raises:
            IndexingError: always.
            BaseException: what the thread met, if it was no fault of the store.
        """
        self._stop()
        assert self._error is not None
        if not isinstance(self._error, StoreError):
            raise self._error
        # What was stored before went with its collection.
        missing = [*(seen if isinstance(self._error, CollectionGone) else self._missing), *rest]
        raise IndexingError(
            f"{self._error}; {_named(missing)} not known to be stored, run it again to store the rest",
            missing,
        ) from self._error

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (jobs := self._queue.get()) is not None:
            if self._error is None:  # else the queue is emptied, so that nobody waits for it
                try:
                    self._store(jobs)
                except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for it
                    self._error = error

    def _store(self, jobs: Sequence[_Job]) -> None:
        """A window. A document of several points counts as stored when the last of them is."""
        single = [job for job in jobs if len(job.units) == 1 and job.before <= 1]
        several = [job for job in jobs if not (len(job.units) == 1 and job.before <= 1)]
        for batch in _batches([(job.document.id, job.units[0]) for job in single]):
            failed = self._upsert(batch)
            stored = {name for name, _ in batch} - failed
            self.acknowledge(stored, len(stored))
        if not several:
            return
        failed = set()
        firsts = [(job.document.id, _incomplete(job)) for job in several]
        others = [(job.document.id, unit) for job in several for unit in job.units[1:]]
        for batch in (*_batches(firsts), *_batches(others)):
            failed |= self._upsert(batch)
        whole = [job for job in several if job.document.id not in failed]
        surplus = [p for job in whole for p in points_of(job.document.id, range(len(job.units), job.before))]
        self._engine.delete(surplus)
        self._engine.set_payloads([(job.units[0][-1].id, _completed(job)) for job in whole])
        self.acknowledge({job.document.id for job in whole}, len(whole))

    def _upsert(self, batch: Sequence[_Named]) -> set[str]:
        """Store points; returns the ids of documents whose point no request can hold."""
        try:
            self._engine.upsert([point for _, unit in batch for point in unit])
        except TooLarge as error:
            halves = _halves(batch)
            if halves is not None:
                # The second half of one unit is the point that says that all of it is stored.
                failed = self._upsert(halves[0])
                return failed if failed and len(batch) == 1 else failed | self._upsert(halves[1])
            name = batch[0][0]
            self._oversized[name] = str(error)
            return {name}
        return set()


def slice_encoded(encoded: Encoded, start: int, count: int) -> Encoded:
    """Rows `start` to `start + count` of given vectors.

    Raises:
        DataError: if there are fewer.
    """
    if len(encoded.dense) < start + count or len(encoded.tokens) < start + count:
        raise DataError(
            f"there are {len(encoded.dense)} given vectors and {len(encoded.tokens)} token lists, but more "
            "documents; give one of each for every document"
        )
    rows = range(start, start + count)
    return Encoded(encoded.dense[start : start + count], encoded.tokens.take(rows))


def _hash(stored: Mapping[str, Stored], name: str) -> str | None:
    found = stored.get(name)
    return None if found is None else found.hash


def _stored(payload: Mapping[str, object]) -> Stored:
    points = payload.get(PASSAGES, 1)
    return Stored(str(payload[HASH]), points if isinstance(points, int) else 1)


def points_of(document_id: str, numbers: Iterable[int]) -> Iterator[str]:
    """Ids of the points of some passages: of what is found before what it needs."""
    for number in numbers:
        point = point_id(document_id, number)
        yield point
        yield tokens_id(point)


def _incomplete(job: _Job) -> _Unit:
    """The first unit, marked until the others are stored; it knows of every passage that may exist."""
    *tokens, first = job.units[0]
    marked: Payload = {HASH: INCOMPLETE, PASSAGES: max(len(job.units), job.before)}
    return (*tokens, replace(first, payload={**first.payload, **marked}))


def _completed(job: _Job) -> Payload:
    return {HASH: job.units[0][-1].payload[HASH], PASSAGES: len(job.units)}


def _halves(batch: Sequence[_Named]) -> tuple[Sequence[_Named], Sequence[_Named]] | None:
    """A batch in two; None for a single point."""
    if len(batch) > 1:
        half = len(batch) // 2
        return batch[:half], batch[half:]
    name, unit = batch[0]
    return ([(name, unit[:1])], [(name, unit[1:])]) if len(unit) > 1 else None


def _batches(units: Iterable[_Named]) -> Iterator[list[_Named]]:
    """Batches bounded by count and by bytes; a unit larger than the bound stands alone."""
    batch: list[_Named] = []
    size = 0
    for name, unit in units:
        own = sum(point.size for point in unit)
        if batch and (len(batch) == _UPSERT_UNITS or size + own > _UPSERT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((name, unit))
        size += own
    if batch:
        yield batch


def _named(ids: Sequence[str]) -> str:
    """How many documents, and the first of them."""
    shown = ", ".join(repr(name) for name in ids[:_NAMED])
    if len(ids) == 1:
        return f"1 document ({shown}) is"
    return f"{len(ids)} documents ({shown}{', ...' if len(ids) > _NAMED else ''}) are"
