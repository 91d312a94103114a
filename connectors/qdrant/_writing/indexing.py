"""Bringing a collection up to date: only what changed is encoded, and nothing that was stored is lost.

The next window of documents is encoded while a thread makes the points of the one before and stores them. The
queue between them is short, so that a slow store slows the encoder down instead of filling the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._border import instances
from surprise_rerank._documents import Document, Passage
from surprise_rerank._errors import DataError
from surprise_rerank.connectors._progress import Advance
from surprise_rerank.connectors.qdrant._engines import Engine
from surprise_rerank.connectors.qdrant._lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant._manifest import IndexOptions
from surprise_rerank.connectors.qdrant._multivectors import document_vectors, token_payload
from surprise_rerank.connectors.qdrant._schema import (
    HASH,
    INCOMPLETE,
    KEY,
    NUMBER,
    OF_INDEX,
    PASSAGES,
    SOURCE,
    SURPRISE,
    Payload,
    Point,
    PointForm,
    StoredVector,
    document_key,
    document_payload,
    passage_payload,
    point_id,
    stored_hash,
    tenant_of_key,
)
from surprise_rerank.connectors.qdrant._writing.inventory import Inventory, Stored
from surprise_rerank.connectors.qdrant._writing.kept_terms import PointWriter
from surprise_rerank.connectors.qdrant._writing.statistics import Statistics
from surprise_rerank.connectors.qdrant._writing.writer import (
    Job,
    StoppedError,
    Writer,
    delete_documents,
    too_large_to_store,
)
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.tokens import TokenBatch, pooled_tokens
from surprise_rerank.encoders.base import Encoded, Encoder, Progress, encode_documents, token_dimension

# Documents whose state is looked up together, and that are sorted by length: like lengths pad little.
_CHUNK, _CHUNK_CHARACTERS = 8192, 8 * 2**20
# Texts are encoded a window at a time: an interruption loses two, and a window's float32 tokens stay under
# 50 MiB; three windows are in memory.
_WINDOW = 128
_QUEUED = 1  # windows beside the one that is stored: their vectors are in memory
_PRUNED = 1000  # documents that are removed together


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `DocumentIndex.sync` did: how many documents were new, changed, unchanged, and removed.

    Unchanged ones were not encoded again. So many of the new and changed are stored as several passages.
    Of those that `prune` would have removed so many stay, as their files or rows could not be used this time.
    The background took so many seconds after that.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    split: int = 0
    kept: int = field(default=0, repr=False)
    background_seconds: float = field(default=0.0, compare=False, repr=False)

    def __str__(self) -> str:
        counts = (f"{getattr(self, name)} {name}" for name in ("added", "updated", "unchanged", "removed"))
        return ", ".join(counts)


@dataclass(slots=True)
class Indexer:
    """One pass over a collection of documents, whose points a maker makes and `points` stores in the engine.

    The work is told how many documents are encoded, of a long one the share, and how much work that was.
    """

    engine: Engine
    points: PointWriter
    maker: PointMaker
    work: Advance
    settle: Callable[[Sequence[Document]], Bm25 | None]  # from the first documents, how words are made
    tenant: str | None = None  # whose documents alone are taken and pruned; None for those of all
    replaces: bool = False  # whether a document may take the place of one that was read from elsewhere
    may_be_empty: bool = False  # whether to prune all that is stored where there are no documents
    is_complete: bool = False  # all is stored, but for what no request can hold
    _places: Callable[[str], Sequence[str]] | None = None  # finds the documents of an id, for a message
    _counts: Counter[str] = field(default_factory=Counter)  # by the fields of `SyncReport`

    def run(
        self, documents: Iterable[Document], *, prune: bool = False, encoded: Encoded | None = None
    ) -> SyncReport:
        """Store what is new or changed; see `DocumentIndex.sync`."""
        options = self.maker.options
        if self.tenant is not None:
            options.tenant_filter(self.tenant)  # refuses an index without tenants
        source = instances("documents", documents, Document, "make it of Document(id=..., text=...)")
        self._places = getattr(documents, "places", None)  # as a `DocumentSource` has it
        pruned, form = self.engine if prune else None, self.maker.form
        with Inventory(options, self.tenant, pruned, form) as inventory:
            oversized = self._store(
                source, inventory, encoded, reads_on=isinstance(documents, Sequence), prune=prune
            )
            if prune:
                if not self.may_be_empty:
                    inventory.require_some("the index")
                self._prune(inventory.gone(documents, options))
        if self.changed or self.engine.is_grown:
            self.engine.finish()
        self.is_complete = True
        if oversized:
            raise too_large_to_store(oversized)
        names = ("added", "updated", "unchanged", "removed", "split", "kept")
        return SyncReport(*(self._counts[name] for name in names))

    def _store(
        self,
        source: Iterator[Document],
        inventory: Inventory,
        encoded: Encoded | None,
        *,
        reads_on: bool,
        prune: bool,
    ) -> dict[str, str]:
        """Store what is new or changed; returns the documents that no request holds, and why."""
        row, encoder = 0, self.maker.encoder
        windows = encoder.windows if isinstance(encoder, PointWorkers) else _QUEUED
        with Writer(self.points, windows) as writer:
            while chunk := _chunk_of(source):
                try:
                    if not row:
                        self.maker = replace(self.maker, words=self.settle(chunk))
                    part = None if encoded is None else slice_encoded(encoded, row, len(chunk))
                    self._chunk(chunk, inventory, part, writer, prune=prune)
                    row += len(chunk)
                except StoppedError:
                    # Later ids are reported if that needs no reading of a stream, which may have no end.
                    writer.give_up(
                        inventory.seen(), map(self.maker.options.key_of, source if reads_on else ())
                    )
            writer.finish(inventory.seen())
        return writer.oversized

    def _prune(self, gone: Iterator[tuple[str, int, bool]]) -> None:
        """Remove documents, some at a time, but those whose places are unusable."""
        while part := list(islice(gone, _PRUNED)):
            removed = [(key, passages) for key, passages, is_unusable in part if not is_unusable]
            self._counts["kept"] += len(part) - len(removed)
            if removed:
                self.engine.claim()
                self._counts["removed"] += len(removed)
                delete_documents(self.points, removed, self.maker.form)

    @property
    def changed(self) -> int:
        """How many documents were stored or removed, or handed over for it where that failed."""
        return sum(self._counts[name] for name in ("added", "updated", "removed"))

    def _chunk(
        self,
        documents: Sequence[Document],
        inventory: Inventory,
        encoded: Encoded | None,
        writer: Writer,
        *,
        prune: bool,
    ) -> None:
        keys = self._unique_keys(documents, inventory)
        # This also finds what cannot be stored before anything is encoded.
        hashes = [stored_hash(d) for d in documents]
        writer.expect(keys)
        stored = inventory.stored(keys) if prune else self._stored(keys, writer)
        current = {
            key: None
            for key, digest in zip(keys, hashes, strict=True)
            if key in stored and stored[key].hash == digest
        }
        rows = [i for i, key in enumerate(keys) if key not in current]
        if not self.replaces:
            for i in rows:
                _require_same_source(documents[i], stored.get(keys[i]))
        writer.acknowledge(current)
        self._counts["unchanged"] += len(current)
        self.work(len(current), 0)
        rows.sort(key=lambda i: -len(documents[i].content))
        characters = sum(len(documents[i].content) for i in rows) or 1
        for window in self._windows(rows, documents):
            pieces = [piece for pieces_of_one in window.values() for piece in pieces_of_one]
            effort = len(rows) * sum(len(documents[i].content) for i in window) / characters
            jobs = []
            for i, pieces_of_one in window.items():
                before = stored[keys[i]].passages if keys[i] in stored else 0
                jobs.append(Job(keys[i], hashes[i], len(pieces_of_one), before))
            if encoded is None and len(pieces) > _WINDOW:
                self._store_long(jobs[0], pieces, stored.get(jobs[0].key), effort, writer)
            else:
                points = self._points_of(pieces, list(window), effort, encoded)
                writer.put(partial(_with_points, jobs, points))
            for job in jobs:
                self._counts["updated" if job.key in stored else "added"] += 1
                self._counts["split"] += job.count > 1

    def _windows(
        self, rows: Sequence[int], documents: Sequence[Document]
    ) -> Iterator[dict[int, list[Piece]]]:
        """Row -> pieces, of about `_WINDOW` pieces each; a document's pieces stay together."""
        window: dict[int, list[Piece]] = {}
        size = 0
        for start in range(0, len(rows), _WINDOW):
            part = rows[start : start + _WINDOW]
            for i, pieces in zip(part, self.maker.pieces([documents[i] for i in part]), strict=True):
                if window and size + len(pieces) > _WINDOW:
                    yield window
                    window, size = {}, 0
                window[i] = pieces
                size += len(pieces)
        if window:
            yield window

    def _points_of(
        self, pieces: Sequence[Piece], rows: Sequence[int], effort: float, encoded: Encoded | None
    ) -> Callable[[], list[Point]]:
        """What makes the points of pieces, which are encoded."""
        if encoded is not None:
            if len(pieces) != len(rows):
                longest = next(piece for piece in pieces if piece.count > 1)
                raise DataError(
                    f"document {longest.document.id!r} is longer than the model reads and would be split, "
                    "but its vector was given; make the index with passages=None, or let it encode"
                )
            self.work(len(rows), effort)
            return partial(self.maker.points, pieces, encoded.take(rows))
        return self._begun(pieces, len(rows), effort)

    def _store_long(
        self, job: Job, pieces: Sequence[Piece], stored: Stored | None, effort: float, writer: Writer
    ) -> None:
        """Store a document of many passages, some of them at a time; its vectors would fill the memory.

        A new one is stored as it is encoded, and an interrupted pass is gone on with. The passages of one
        that is replaced answer until all new ones are there.
        """
        if stored is not None and stored.hash == f"{INCOMPLETE}{job.hash}":
            ids = [point_id(job.key, number) for number in range(job.count)]
            records = writer.asking(lambda: self.engine.retrieve(ids, (NUMBER,)))
            numbers = {record.payload[NUMBER] for record in records}
            job = replace(job, before=0)
            pieces = [piece for i, piece in enumerate(pieces) if i not in numbers]
        points: list[Point] = []
        for start in range(0, len(pieces), _WINDOW):
            part = pieces[start : start + _WINDOW]
            share = len(part) / len(pieces)
            points_of_part = self._begun(part, share, effort * share)
            if job.before:
                points += points_of_part()
            else:
                some = replace(job, is_last=False)
                writer.put(partial(_with_points, [some], points_of_part))
        writer.put(lambda: [replace(job, points=points)])

    def _begun(self, pieces: Sequence[Piece], count: float, effort: float) -> Callable[[], list[Point]]:
        """Encode pieces, or begin to elsewhere; returns what makes their points, or waits for them.

        They are so many documents and so much work, which is told batch by batch where the encoder does.
        """
        self.engine.claim()  # before the work, not after it
        encoder: object = self.maker.encoder
        done = 0

        def tell(number: int) -> None:
            nonlocal done
            done += number
            self.work(count * number / len(pieces), effort * number / len(pieces))

        if isinstance(encoder, PointWorkers):
            points = encoder.begin(self.maker, pieces)
        else:
            points = partial(self.maker.points, pieces, self.maker.encoded(pieces, tell))
        tell(len(pieces) - done)
        return points

    def _unique_keys(self, documents: Sequence[Document], inventory: Inventory) -> list[str]:
        """Return what each document is known by.

        Raises:
            DataError: if one is known already, or is of another tenant than these are to be of.
        """
        keys = []
        for document in documents:
            if not document.id:
                advice = f"name the one whose text begins {document.text[:40]!r}"
                border.refuse("a document's id", document.id, "a string that is not empty", advice)
            key = self.maker.options.key_of(document)
            if self.tenant is not None and key != document_key(document.id, self.tenant):
                raise DataError(
                    f"document {document.id!r} is of tenant {tenant_of_key(key)!r}, and the documents of "
                    f"tenant={self.tenant!r} are brought up to date; leave the tenant away, or the document"
                )
            if not inventory.see(key, document.source):
                places = f" ({' and '.join(find(document.id))})" if (find := self._places) else ""
                raise DataError(
                    f"the document id {document.id!r} occurs twice{places}; ids must be unique: name another "
                    "column (--id-field NAME), or take a hash of title and text (--id-field content)"
                )
            keys.append(key)
        return keys

    def _stored(self, keys: Sequence[str], writer: Writer) -> dict[str, Stored]:
        points = [self.maker.form.point_id(key) for key in keys]
        records = writer.asking(lambda: self.engine.retrieve(points, (HASH, PASSAGES, SOURCE)))
        states = {record.id: Stored.of(record.payload) for record in records}
        return {key: states[str(p)] for key, p in zip(keys, points, strict=True) if str(p) in states}


def _chunk_of(documents: Iterator[Document]) -> list[Document]:
    """Return the next documents, as many as are looked up together: long ones would fill the memory."""
    chunk, characters = list[Document](), 0
    for document in islice(documents, _CHUNK):
        chunk.append(document)
        characters += len(document.text)
        if characters >= _CHUNK_CHARACTERS:
            break
    return chunk


def _require_same_source(document: Document, stored: Stored | None) -> None:
    """Refuse to put a document of one source into the place of another source's.

    Raises:
        DataError: names both sources.
    """
    if stored is None or not document.source or stored.source in ("", document.source):
        return
    raise DataError(
        f"the document {document.id!r} of {document.source} would take the place of another one of that id, "
        f"which was read from {stored.source}; give ids of their own (--set id_prefix=NAME/, in Python "
        "open_documents(...).with_prefix('NAME/')), or, if the source has moved, replace them (--set "
        "replace=yes, sync(..., replace=True))"
    )


def _with_points(jobs: Sequence[Job], points: Callable[[], list[Point]]) -> list[Job]:
    """The jobs of documents with their points; of a part of one all that there are."""
    stream = iter(points())
    return [replace(job, points=list(islice(stream, job.count))) for job in jobs]


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


@dataclass(frozen=True, slots=True)
class Piece:
    """What one point is made of: a document, or a passage of one."""

    document: Document  # the whole
    passage: Passage | None  # the stretch; None where the index has no passages
    count: int  # how many passages the document has
    text: str  # what is encoded


@dataclass(frozen=True, slots=True)
class PointMaker:
    """Makes the points of an index, or those beside somebody else's collection."""

    options: IndexOptions  # what is stored
    encoder: Encoder | None  # makes the vectors; None where there are words alone
    statistics: Statistics | None = None  # gives the moments; None where the index has none yet
    words: Bm25 | None = None  # how words are made, in the documents' language
    form: PointForm = OF_INDEX  # what vectors and points are called

    @property
    def sizes(self) -> tuple[int, int | None] | None:
        """Dimensions of dense vectors and of token vectors (None: none); None where there are words alone."""
        return None if self.encoder is None else (self.encoder.dimension, token_dimension(self.encoder))

    def pieces(self, documents: Sequence[Document]) -> list[list[Piece]]:
        """Each document in one piece, or in as many as it has passages."""
        if self.options.passages is None or self.encoder is None:
            return [[Piece(d, None, 1, d.content)] for d in documents]
        split = self.options.passages.split(documents, self.encoder)
        texts = self.options.passages.texts(documents, split, self.encoder)
        return [
            [Piece(d, p, len(passages), text) for p, text in zip(passages, shown, strict=True)]
            for d, passages, shown in zip(documents, split, texts, strict=True)
        ]

    def encoded(self, pieces: Sequence[Piece], on_progress: Progress | None = None) -> Encoded:
        """The vectors of pieces."""
        if self.encoder is None:
            return Encoded(np.zeros((len(pieces), 0), np.float32))
        return encode_documents(self.encoder, [piece.text for piece in pieces], on_progress)

    def terms(self, pieces: Sequence[Piece], encoded: Encoded) -> Sequence[SparseVector]:
        """The vectors of the words of pieces; none where no words are stored."""
        return () if self.words is None else self.words.documents([piece.text for piece in pieces])

    def points(self, pieces: Sequence[Piece], encoded: Encoded) -> list[Point]:
        """The points of n pieces, from their encodings.

        Raises:
            DataError: if there is not one vector of the index's dimension for every piece, or the index
                stores token vectors and they are missing or of another dimension.
        """
        form, vectors = self.form, list[dict[str, StoredVector]]({} for _ in pieces)
        if form.dense is not None and self.sizes is not None:
            expected = (len(pieces), self.sizes[0])
            border.equal("the shape of the dense vectors", encoded.dense.shape, expected)
            vectors = [{form.dense: row} for row in encoded.dense]
        keys = [self.options.key_of(piece.document) for piece in pieces]
        payloads = [_payload(piece, form) for piece in pieces]
        if self.options.tenant is not None:
            for payload, key in zip(payloads, keys, strict=True):
                payload[KEY] = key
        if self.options.tokens:
            tokens = pooled_tokens(self._tokens(encoded, len(pieces)), self.options.pooling)
            for i, named in enumerate(vectors):
                named[form.tokens] = document_vectors(tokens, i)
                payloads[i].update(token_payload(tokens, i))
        self._add_statistics(encoded.dense, vectors, payloads)
        for named, terms in zip(vectors, self.terms(pieces, encoded), strict=False):
            # Engines differ in whether such a text counts in the IDF; one without a vector never does.
            if len(terms.indices):
                named[form.words] = terms
        return [
            Point(form.point_id(key, p.passage.number if p.passage else 0), named, payload)
            for key, p, named, payload in zip(keys, pieces, vectors, payloads, strict=True)
        ]

    def _tokens(self, encoded: Encoded, count: int) -> TokenBatch:
        """The token vectors of so many texts."""
        tokens = encoded.require_tokens()
        dimension = None if self.sizes is None else self.sizes[1]
        if (len(tokens), tokens.dimension) != (count, dimension):
            raise DataError(
                f"{count} texts need as many lists of token vectors of dimension {dimension}, got "
                f"{len(tokens)} of dimension {tokens.dimension}"
            )
        return tokens

    def _add_statistics(
        self, dense: Float32Array, vectors: list[dict[str, StoredVector]], payloads: list[Payload]
    ) -> None:
        if self.statistics is None or not len(dense):
            return
        moments = self.statistics.moments(dense)
        for payload, changes in zip(payloads, self.statistics.payloads(moments), strict=True):
            payload.update(changes)
        if self.options.surprise_vector:
            for named, vector in zip(vectors, self.statistics.augmented(dense, moments), strict=True):
                named[SURPRISE] = vector


@runtime_checkable
class PointWorkers(Protocol):
    """An encoder whose documents become points in other processes.

    Attributes:
        windows: how many windows of documents may be on their way at once.
    """

    windows: int

    def begin(self, maker: PointMaker, pieces: Sequence[Piece]) -> Callable[[], list[Point]]:
        """Begin to make the points of pieces; returns what waits for them."""


def _payload(piece: Piece, form: PointForm) -> Payload:
    if form.is_beside:
        return {HASH: stored_hash(piece.document)}
    if piece.passage is None:
        return document_payload(piece.document)
    payload = passage_payload(piece.document, piece.passage)
    if piece.passage.number:
        return payload
    return {**document_payload(piece.document), **payload, PASSAGES: piece.count}
