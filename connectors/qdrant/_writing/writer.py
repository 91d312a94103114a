"""A thread that stores points while others are encoded, halves what is too large, tells what is missing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from surprise_rerank._errors import IndexingError, StoreError
from surprise_rerank.connectors.qdrant._engines.retries import CollectionGone, TooLarge
from surprise_rerank.connectors.qdrant._schema import (
    HASH,
    INCOMPLETE,
    OF_INDEX,
    PASSAGES,
    Payload,
    Point,
    PointForm,
    PointId,
    point_id,
)
from surprise_rerank.connectors.qdrant._writing.kept_terms import PointWriter
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core._computing import using_threads

T = TypeVar("T")
_Named: TypeAlias = tuple[str, Point]  # with the document's key

# Of a request: a quarter of what a Qdrant server accepts.
UPSERT_POINTS = 64
UPSERT_BYTES = 8 * 2**20
_NAMED = 5  # ids that an error shows


@dataclass(frozen=True, slots=True)
class Job:
    """A document to store, by its key: how many passages it has and had before, and points for them.

    A long one comes in several jobs, each with points that are encoded.
    """

    key: str
    hash: str
    count: int
    before: int
    points: Sequence[Point] = ()
    is_last: bool = True


class StoppedError(Exception):
    """The writer has met an error; it is raised when what is missing is known."""


class Writer:
    """A thread that makes the points of windows, and stores them in their order.

    Tokens are merged here, while the next window is encoded. An error stops the thread; one of the
    store is raised as an `IndexingError`. So many windows wait, beside the one that is stored.
    """

    def __init__(self, points: PointWriter, windows: int) -> None:
        self._points = points
        self._queue: queue.Queue[Callable[[], Sequence[Job]] | None] = queue.Queue(windows)
        self._thread = threading.Thread(target=self._run, name="surprise-rerank-writer", daemon=True)
        self._error: BaseException | None = None
        self._missing: dict[str, None] = {}  # ids that are not known to be stored, in their order
        self.oversized: dict[str, str] = {}  # id -> why no request holds it
        self._lock = threading.Lock()

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an interruption: what is encoded is stored.
        self._stop()

    def put(self, window: Callable[[], Sequence[Job]]) -> None:
        """Hand over a window, as what makes its jobs; waits while the queue is full."""
        if self._error is not None:
            raise StoppedError
        self._queue.put(window)

    def expect(self, names: Sequence[str]) -> None:
        """Remember that documents are to be stored, unless they are acknowledged."""
        with self._lock:
            self._missing.update(dict.fromkeys(names))

    def acknowledge(self, names: Iterable[str]) -> None:
        """The documents of these names are stored."""
        with self._lock:
            for name in names:
                self._missing.pop(name, None)

    def asking(self, request: Callable[[], list[T]]) -> list[T]:
        """What a request of the main thread gives; its failure counts as the writer's."""
        try:
            return request()
        except StoreError as error:
            self._error = self._error or error
            raise StoppedError from error

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

    def give_up(self, seen: Iterable[str], unread: Iterable[str]) -> None:
        """Raise the error, with the ids that are not known to be stored: of those seen, and of the rest.

        Raises:
            IndexingError: if it was the store's.
            BaseException: what the thread met, if it was no fault of the store.
        """
        self._stop()
        assert self._error is not None
        if not isinstance(self._error, StoreError):
            raise self._error
        # What was stored before went with its collection.
        missing = [*(seen if isinstance(self._error, CollectionGone) else self._missing), *unread]
        raise IndexingError(
            f"{self._error}; {_named(missing)} not known to be stored, run it again to store the rest",
            missing,
        ) from self._error

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        with using_threads(1):  # the cores are for the encoder
            while (window := self._queue.get()) is not None:
                if self._error is None:  # else the queue is emptied, so that no thread waits for it
                    try:
                        self._store(window())
                    except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for it
                        self._error = error

    def _store(self, jobs: Sequence[Job]) -> None:
        """A window. A document of several points counts as stored when the last of them is."""
        single = [job for job in jobs if job.count == 1 and job.before <= 1]
        several = [job for job in jobs if not (job.count == 1 and job.before <= 1)]
        for batch in _batches((job.key, job.points[0]) for job in single):
            failed = self._upsert(batch)
            self.acknowledge({name for name, _ in batch} - failed)
        if not several:
            return
        points = [(job, point) for job in several for point in job.points]
        firsts = [(job.key, _incomplete(job, point)) for job, point in points if HASH in point.payload]
        others = [(job.key, point) for job, point in points if HASH not in point.payload]
        for batch in (*_batches(firsts), *_batches(others)):
            self._upsert(batch)
        whole = [job for job in several if job.is_last and job.key not in self.oversized]
        surplus = [point_id(job.key, n) for job in whole for n in range(job.count, job.before)]
        self._points.delete(surplus)
        self._points.set_payloads(
            [(point_id(job.key), {HASH: job.hash, PASSAGES: job.count}) for job in whole]
        )
        self.acknowledge([job.key for job in whole])

    def _upsert(self, batch: Sequence[_Named]) -> set[str]:
        """Store points; returns the ids of documents whose point no request can hold."""
        refused = upsert_in_halves(self._points.upsert, [point for _, point in batch])
        reasons = {name: refused[point.id] for name, point in batch if point.id in refused}
        self.oversized |= reasons
        return set(reasons)


def upsert_in_halves(
    upsert: Callable[[Sequence[Point]], None], points: Sequence[Point]
) -> dict[PointId, str]:
    """Store points in as few requests as the server takes them in.

    Returns:
        Of the points that no request can hold, the id and the reason.
    """
    try:
        upsert(points)
    except TooLarge as error:
        if len(points) == 1:
            return {points[0].id: str(error)}
        half = len(points) // 2
        return upsert_in_halves(upsert, points[:half]) | upsert_in_halves(upsert, points[half:])
    return {}


def too_large_to_store(reasons: Mapping[str, str]) -> IndexingError:
    """The error for documents that no request can hold, by id with the reason; all others are stored."""
    name, reason = next(iter(reasons.items()))
    return IndexingError(
        f"{_named(list(reasons))} not stored: {reason}; all others are stored "
        f"(shorten {name!r}, or raise the server's limit)",
        list(reasons),
    )


def _incomplete(job: Job, first: Point) -> Point:
    """The first point, marked until the others are stored; it knows of every passage that may exist."""
    mark = INCOMPLETE if job.before else f"{INCOMPLETE}{job.hash}"
    marked: Payload = {HASH: mark, PASSAGES: max(job.count, job.before)}
    return replace(first, payload={**first.payload, **marked})


def _batches(points: Iterable[_Named]) -> Iterator[list[_Named]]:
    return in_batches(points, lambda named: named[1].size, UPSERT_BYTES, UPSERT_POINTS)


def _named(ids: Sequence[str]) -> str:
    """Return the number of documents and the first of them, in words."""
    shown = ", ".join(repr(name) for name in ids[:_NAMED])
    if len(ids) == 1:
        return f"1 document ({shown}) is"
    return f"{len(ids)} documents ({shown}{', ...' if len(ids) > _NAMED else ''}) are"


def delete_documents(
    writer: PointWriter, documents: Sequence[tuple[str, int]], form: PointForm = OF_INDEX
) -> None:
    """Remove documents with all their points.

    A document is there as long as its first point is, so that goes last: what is interrupted can be repeated.

    Args:
        writer: deletes points.
        documents: key and number of passages of each.
        form: of the points.
    """
    writer.delete([form.point_id(key, n) for key, passages in documents for n in range(1, passages)])
    writer.delete([form.point_id(key) for key, _ in documents])
