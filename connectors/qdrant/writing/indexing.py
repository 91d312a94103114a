"""Bringing a collection up to date: only what changed is encoded, and nothing that was stored is lost.

The next window of documents is encoded while a thread makes the points of the one before and stores them. The
queue between them is short, so that a slow store slows the encoder down instead of filling the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from surprise_rerank.connectors.progress import Advance
from surprise_rerank.connectors.qdrant.engines.base import Engine
from surprise_rerank.connectors.qdrant.schema import (
    HASH,
    ID,
    NUMBER,
    PASSAGES,
    SOURCE,
    Point,
    point_id,
    stored_hash,
)
from surprise_rerank.connectors.qdrant.writing.pipeline import (
    Job,
    StoppedError,
    Writer,
    delete_documents,
)
from surprise_rerank.connectors.qdrant.writing.points import Piece, PointMaker
from surprise_rerank.connectors.qdrant.writing.term_upkeep import PointWriter
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded, encode_documents
from surprise_rerank.errors import DataError

# Documents whose state is looked up together, and that are sorted by length: like lengths pad little.
_CHUNK = 8192
# Texts are encoded a window at a time: an interruption loses two, and a window's float32 tokens stay under
# 50 MiB; three windows are in memory.
_WINDOW = 128


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `DocumentIndex.sync` did: how many documents were new, changed, unchanged, and removed.

    Unchanged ones were not encoded again. So many of the new and changed are stored as several passages.
    The background took so many seconds after that.
    """

    added: int
    updated: int
    unchanged: int
    removed: int
    split: int = 0
    background_seconds: float = field(default=0.0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document's hash, number of passages (1 where it is whole), and what it was read from."""

    hash: str
    passages: int
    source: str = ""


@dataclass(slots=True)
class Indexer:
    """One pass over a collection of documents, whose points a maker makes and `points` stores in the engine.

    The work is told how many documents are encoded, of a long one the share; `on_progress` the number of
    every part that is stored.
    """

    engine: Engine
    points: PointWriter
    maker: PointMaker
    work: Advance
    on_progress: Callable[[int], None] | None = None
    _counts: Counter[str] = field(default_factory=Counter)  # by the fields of `SyncReport`
    _seen: dict[str, None] = field(default_factory=dict)  # ids, in their order
    _sources: set[str] = field(default_factory=set)  # that documents were read from

    def run(
        self, documents: Iterable[Document], *, prune: bool = False, encoded: Encoded | None = None
    ) -> SyncReport:
        """Store what is new or changed; see `DocumentIndex.sync`."""
        known = dict(self._all_stored()) if prune else None
        source = iter(documents)
        row = 0
        with Writer(self.points) as writer:
            while chunk := list(islice(source, _CHUNK)):
                try:
                    part = None if encoded is None else slice_encoded(encoded, row, len(chunk))
                    self._chunk(chunk, known, part, writer)
                    row += len(chunk)
                except StoppedError:
                    # Later ids are reported if that needs no reading of a stream, which may have no end.
                    rest = [d.id for d in source] if isinstance(documents, Sequence) else []
                    writer.give_up(self._seen, rest)
            writer.finish(self._seen)
            self._told(writer)
        removed = 0
        if known is not None:
            _require_all_read(documents)
            removed = self._prune(known)
        done = self._counts
        if removed or done["added"] or done["updated"]:
            self.engine.finish()
        return SyncReport(done["added"], done["updated"], done["unchanged"], removed, done["split"])

    def _chunk(
        self,
        documents: Sequence[Document],
        known: Mapping[str, Stored] | None,
        encoded: Encoded | None,
        writer: Writer,
    ) -> None:
        self._require_unique(documents)
        writer.expect([d.id for d in documents])
        # This also finds what cannot be stored before anything is encoded.
        hashes = [stored_hash(d) for d in documents]
        stored = known if known is not None else self._stored(documents, writer)
        pairs = zip(documents, hashes, strict=True)
        current = {d.id: d for d, own in pairs if d.id in stored and stored[d.id].hash == own}
        rows = [i for i, d in enumerate(documents) if d.id not in current]
        writer.acknowledge(set(current))
        self._counts["unchanged"] += len(current)
        self.work(len(current))
        self._report(len(current))
        rows.sort(key=lambda i: -len(documents[i].content))
        for window in self._windows(rows, documents):
            pieces = [piece for own in window.values() for piece in own]
            points = self._points_of(pieces, list(window), encoded)
            parts = []
            for i, own in window.items():
                before = stored.get(documents[i].id)
                parts.append((documents[i], len(own), before.passages if before else 0))
                self._counts["added" if before is None else "updated"] += 1
                self._counts["split"] += len(own) > 1
            writer.put(partial(_jobs, parts, points))
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

    def _points_of(
        self, pieces: Sequence[Piece], rows: Sequence[int], encoded: Encoded | None
    ) -> Callable[[], list[Point]]:
        """What makes the points of pieces, which are encoded; of a long document they are made already."""
        # Such a document is encoded some pieces at a time, too, and its vectors would fill the memory.
        if encoded is not None:
            if len(pieces) != len(rows):
                longest = next(piece for piece in pieces if piece.count > 1)
                raise DataError(
                    f"document {longest.document.id!r} is longer than the model reads and would be split, "
                    "but its vector was given; make the index with passages=None, or let it encode"
                )
            self.work(len(rows))
            return partial(self.maker.points, pieces, encoded.take(rows))
        if len(pieces) <= _WINDOW:
            made = partial(self.maker.points, pieces, self._encoded(pieces))
            self.work(len(rows))
            return made
        points: list[Point] = []
        for start in range(0, len(pieces), _WINDOW):
            part = pieces[start : start + _WINDOW]
            points += self.maker.points(part, self._encoded(part))
            self.work(len(rows) * len(part) / len(pieces))
        return lambda: points

    def _encoded(self, pieces: Sequence[Piece]) -> Encoded:
        self.engine.claim()  # before the work, not after it
        return encode_documents(self.maker.encoder, [piece.text for piece in pieces])

    def _require_unique(self, documents: Sequence[Document]) -> None:
        for document in documents:
            if not document.id:
                raise DataError(f"a document has an empty id (its text begins {document.text[:40]!r})")
            if document.id in self._seen:
                raise DataError(f"the document id {document.id!r} occurs twice; ids must be unique")
            self._seen[document.id] = None
            if document.source:
                self._sources.add(document.source)

    def _all_stored(self) -> Iterator[tuple[str, Stored]]:
        for batch in self.engine.scroll((ID, HASH, PASSAGES, NUMBER, SOURCE), batch=5000):
            for record in batch:
                if record.payload.get(NUMBER, 0) == 0:
                    yield record.payload[ID], _stored(record.payload)

    def _stored(self, documents: Sequence[Document], writer: Writer) -> dict[str, Stored]:
        found = writer.asking(
            lambda: self.engine.retrieve([point_id(d.id) for d in documents], (ID, HASH, PASSAGES))
        )
        return {record.payload[ID]: _stored(record.payload) for record in found}

    def _prune(self, known: Mapping[str, Stored]) -> int:
        own = self._sources
        gone = sorted(
            name for name in known if name not in self._seen and (not own or known[name].source in own)
        )
        delete_documents(self.points, [(name, known[name].passages) for name in gone])
        return len(gone)

    def _told(self, writer: Writer) -> None:
        self._report(len(writer.take_done()))

    def _report(self, count: int) -> None:
        if self.on_progress is not None and count:
            self.on_progress(count)


def _jobs(parts: Sequence[tuple[Document, int, int]], points: Callable[[], list[Point]]) -> list[Job]:
    """What is to be stored of documents: each with how many pieces it has now, and had before."""
    made = iter(points())
    return [Job(document, list(islice(made, count)), before) for document, count, before in parts]


def slice_encoded(encoded: Encoded, start: int, count: int) -> Encoded:
    """Rows `start` to `start + count` of given vectors.

    Raises:
        DataError: if there are fewer.
    """
    token_lists = len(encoded) if encoded.tokens is None else len(encoded.tokens)
    if min(len(encoded), token_lists) < start + count:
        raise DataError(
            f"there are {len(encoded)} given vectors and {token_lists} token lists, but more documents; give "
            "one of each for every document"
        )
    return encoded.take(range(start, start + count))


def _stored(payload: Mapping[str, object]) -> Stored:
    points = payload.get(PASSAGES, 1)
    return Stored(str(payload[HASH]), points if isinstance(points, int) else 1, str(payload.get(SOURCE, "")))


def _require_all_read(documents: Iterable[Document]) -> None:
    """Refuse to prune after a source that could not be read as a whole: what it missed is not gone."""
    unreadable: Sequence[str] = getattr(documents, "unreadable", ())  # as a `DocumentSource` has it
    if unreadable:
        raise DataError(
            f"{len(unreadable)} files or folders could not be read, such as {unreadable[0]}; the others "
            "are stored and nothing was removed: mend it, exclude it, or leave prune away"
        )
