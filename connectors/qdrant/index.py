"""An index of documents in Qdrant: what is stored, kept up to date, and handed out as candidates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np

from surprise_rerank.arrays import Float32Array
from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.qdrant.engines import Engine, EngineKind, open_engine
from surprise_rerank.connectors.qdrant.schema import (
    DOCUMENT_FIELDS,
    HASH,
    ID,
    TOKENS,
    Manifest,
    Point,
    Record,
    point_id,
    stored_hash,
    to_document,
    to_payload,
    to_tokens,
)
from surprise_rerank.documents import Document
from surprise_rerank.encoders import Encoder
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import DataError
from surprise_rerank.kernels import with_own_memberships
from surprise_rerank.rerank import Field
from surprise_rerank.tokens import TokenBatch

# Documents are encoded a window at a time: an interruption loses one, and float32 tokens stay under 50 MiB.
_WINDOW = 128
_UPSERT_POINTS = 64
_UPSERT_BYTES = 8 * 2**20  # a quarter of what a Qdrant server accepts in one request


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `DocumentIndex.sync` did.

    Attributes:
        added: documents that were new.
        updated: documents whose text or metadata had changed.
        unchanged: documents that were there already and were not encoded again.
        removed: stored documents that were no longer in the collection.
    """

    added: int
    updated: int
    unchanged: int
    removed: int


class DocumentIndex:
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager.

    >>> from surprise_rerank.encoders import load_encoder        # doctest: +SKIP
    >>> with DocumentIndex.open("my-index", load_encoder()) as index:  # doctest: +SKIP
    ...     index.sync(documents)
    """

    def __init__(self, engine: Engine, encoder: Encoder) -> None:
        self._engine = engine
        self._encoder = encoder

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str] | None,
        encoder: Encoder,
        *,
        collection: str = "documents",
        url: str | None = None,
        api_key: str | None = None,
        engine: EngineKind | None = None,
    ) -> DocumentIndex:
        """Open an index, or make an empty one.

        Args:
            location: a folder, or `:memory:`; not used with a url.
            encoder: must be the model that the index was made with.
            collection: the collection's name.
            url: of a Qdrant server or cluster, such as http://localhost:6333.
            api_key: for the server; the environment variable QDRANT_API_KEY by default.
            engine: `edge` or `local` for a new folder; Edge where it is installed by default.

        Raises:
            StoreError: if the folder or server cannot be used.
            IndexMismatchError: if the index was made by another model; the message names both.
        """
        manifest = Manifest(encoder.name, encoder.fingerprint, encoder.dimension)
        key = api_key or os.environ.get("QDRANT_API_KEY")
        opened = open_engine(location, manifest, collection=collection, url=url, api_key=key, engine=engine)
        return cls(opened, encoder)

    def __enter__(self) -> DocumentIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is pending and let go of files, locks and connections."""
        self._engine.close()

    @property
    def engine(self) -> EngineKind:
        """Where it lives: `edge`, `local` or `server`."""
        return self._engine.kind

    def __len__(self) -> int:
        return self._engine.count()

    def sync(
        self,
        documents: Iterable[Document],
        *,
        prune: bool = False,
        on_start: Callable[[int], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> SyncReport:
        """Bring the index up to date: only new and changed documents are encoded and stored.

        An interrupted call loses at most one window of work; the next call goes on from there.

        Args:
            documents: the collection; ids must be unique.
            prune: remove stored documents that are not in `documents`.
            on_start: called once with the number of documents to encode.
            on_progress: called with the number of documents of every stored batch.

        Raises:
            DataError: if an id stands twice or metadata is not JSON; nothing is stored then.
            StoreError: if the store fails; what was stored before stays.
        """
        collection = list(documents)
        _require_unique(collection)
        stored = self._stored_hashes()
        # This also finds metadata that cannot be stored before anything is encoded.
        stale = [d for d in collection if stored.get(d.id) != stored_hash(d)]
        if on_start is not None:
            on_start(len(stale))
        # Longest first over the whole collection: windows then hold texts of like length, so little is
        # padded, and memory peaks in the first minute rather than in the last.
        for window in _windows(sorted(stale, key=lambda d: -len(d.content))):
            encoded = self._encoder.encode([d.content for d in window], kind="document")
            packed = with_own_memberships(encoded.tokens.stored("int8")).pack()
            points = [self._point(*parts) for parts in zip(window, encoded.dense, packed, strict=True)]
            for batch in _batches(points):
                self._engine.upsert(batch)
                if on_progress is not None:
                    on_progress(len(batch))
        gone = sorted(set(stored) - {d.id for d in collection}) if prune else []
        if gone:
            self._engine.delete([point_id(name) for name in gone])
        if stale or gone:
            self._engine.flush()
        updated = sum(d.id in stored for d in stale)
        return SyncReport(len(stale) - updated, updated, len(collection) - len(stale), len(gone))

    def search(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset(), *, exact: bool = False
    ) -> Candidates:
        """The documents nearest to a query by cosine.

        Args:
            query: with its dense vector.
            depth: size of the pool.
            fields: what to fetch with it: `dense`, `tokens`, `documents`.
            exact: search without the approximate index, where the engine has built one.
        """
        if query.dense is None:
            raise DataError("the query has no dense vector; encode it with the index's encoder first")
        vector = query.dense.tolist()
        names = _payload_fields(fields)
        records = self._engine.search(vector, depth, names, dense="dense" in fields, exact=exact)
        found = self._candidates(records, fields)
        return replace(found, scores={"cosine": np.array([r.score for r in records], dtype=np.float64)})

    def fetch(self, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Documents by id, in this order.

        Raises:
            DataError: if one is not in the index.
        """
        points = [point_id(name) for name in ids]
        found = self._engine.retrieve(points, _payload_fields(fields), dense="dense" in fields)
        records = {record.payload[ID]: record for record in found}
        missing = [name for name in ids if name not in records]
        if missing:
            raise DataError(f"{len(missing)} documents are not in the index, such as {missing[0]!r}; sync it")
        return self._candidates([records[name] for name in ids], fields)

    def ensemble(self, sample_size: int = 4096) -> Ensemble:
        """The ensemble of all stored documents, in one streaming pass."""
        batches = (self._dense(batch) for batch in self._engine.scroll((), dense=True))
        return Ensemble.from_batches(batches, sample_size=sample_size, model=self._encoder.name)

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a sample of the documents: those of the smallest point ids.

        Point ids are hashes, so this is a uniform sample, and the same one in every engine.
        """
        payloads = [record.payload for record in self._engine.smallest(size, (ID, TOKENS))]
        return tuple(p[ID] for p in payloads), to_tokens(payloads, self._encoder.dimension)

    def _stored_hashes(self) -> dict[str, str]:
        batches = self._engine.scroll((ID, HASH), dense=False, batch=5000)
        return {record.payload[ID]: record.payload[HASH] for batch in batches for record in batch}

    def _point(self, document: Document, dense: Float32Array, packed: bytes) -> Point:
        return Point(point_id(document.id), dense, to_payload(document, packed))

    def _dense(self, records: Sequence[Record]) -> Float32Array:
        vectors = np.array([record.dense for record in records], dtype=np.float32)
        return vectors.reshape(len(records), self._encoder.dimension)

    def _candidates(self, records: Sequence[Record], fields: frozenset[Field]) -> Candidates:
        payloads = [record.payload for record in records]
        return Candidates(
            ids=tuple(p[ID] for p in payloads),
            dense=self._dense(records) if "dense" in fields else None,
            tokens=to_tokens(payloads, self._encoder.dimension) if "tokens" in fields else None,
            documents=tuple(to_document(p) for p in payloads) if "documents" in fields else None,
        )


def _payload_fields(fields: frozenset[Field]) -> tuple[str, ...]:
    names = DOCUMENT_FIELDS if "documents" in fields else (ID,)
    return (*names, TOKENS) if "tokens" in fields else names


def _require_unique(documents: Sequence[Document]) -> None:
    seen: set[str] = set()
    for document in documents:
        if not document.id:
            raise DataError(f"a document has an empty id (its text begins {document.text[:40]!r})")
        if document.id in seen:
            raise DataError(f"the document id {document.id!r} stands twice; ids must be unique")
        seen.add(document.id)


def _windows(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    for start in range(0, len(documents), _WINDOW):
        yield documents[start : start + _WINDOW]


def _batches(points: Iterable[Point]) -> Iterator[list[Point]]:
    """Batches bounded by count and by bytes; a point larger than the bound stands alone."""
    batch: list[Point] = []
    size = 0
    for point in points:
        if batch and (len(batch) == _UPSERT_POINTS or size + point.size > _UPSERT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += point.size
    if batch:
        yield batch
