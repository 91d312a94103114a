"""Adds token vectors and words beside a foreign collection, and takes them away again.

What is written for a point has the hash of its text, so that an interrupted run goes on where it stopped,
and points that were added or changed are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qdrant_client import models

from surprise_rerank.connectors.attached.collection import AttachedCollection
from surprise_rerank.connectors.attached.enriched import (
    RECORD,
    TOKENS,
    WORD_STATISTICS,
    WORDS,
    EnrichmentRecord,
)
from surprise_rerank.connectors.attached.payloads import point_id
from surprise_rerank.connectors.qdrant.engines.client import REQUEST_BYTES, ClientEngine, token_params
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.multivectors import document_vectors, token_payload
from surprise_rerank.connectors.qdrant.schema import HASH, Payload, Point, Record, StoredVector, to_terms
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.batches import in_batches
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_documents, token_dimension
from surprise_rerank.errors import DataError

_MARK = {"surprise-rerank": "beside"}  # metadata of a collection that was made here
_PAGE = 256  # points that are read, encoded and written together
_TRIED = 32  # documents that a dry run encodes, for its estimate


@dataclass(frozen=True, slots=True)
class EnrichReport:
    """What a run did.

    Attributes:
        enriched: points that were new, changed, or not finished.
        unchanged: points that had everything.
        removed: what was added to points that are gone.
        written: bytes that were sent, about.
    """

    enriched: int = 0
    unchanged: int = 0
    removed: int = 0
    written: int = 0

    def __str__(self) -> str:
        return (
            f"{self.enriched} enriched, {self.unchanged} unchanged, {self.removed} removed, "
            f"{self.written / 2**20:.1f} MiB written"
        )


@dataclass(frozen=True, slots=True)
class EnrichCost:
    """What a run would cost, from some of the points.

    Attributes:
        points: that would be enriched.
        bytes: that would be stored, about.
        seconds: of encoding on this machine, about.
        cut: share of the documents whose text is longer than the model reads.
    """

    points: int
    bytes: int
    seconds: float
    cut: float

    def __str__(self) -> str:
        cut = f"; {self.cut:.0%} of the texts are longer than the model reads, and cut" if self.cut else ""
        return (
            f"{self.points} points, about {self.bytes / 2**20:.1f} MiB, {self.seconds:.0f} s of encoding"
            f"{cut}; nothing was written"
        )


@dataclass(frozen=True, slots=True)
class Enricher:
    """Brings what was added up to date.

    Attributes:
        collection: that is enriched.
        record: what is to be there.
        encoder: of the token vectors; None without them.
    """

    collection: AttachedCollection
    record: EnrichmentRecord
    encoder: Encoder | None

    @classmethod
    def planned(cls, collection: AttachedCollection, *, tokens: bool, words: Bm25 | None) -> Enricher:
        """What is asked for, if it makes sense.

        Args:
            collection: that is enriched.
            tokens: whether points get token vectors.
            words: settings of sparse vectors; None for none.

        Raises:
            DataError: if nothing is asked for, or tokens without a model of tokens; if it was enriched
                otherwise before.
        """
        if not (tokens or words):
            raise DataError("nothing to add; ask for tokens or words")
        encoder = collection.token_encoder
        size = None if encoder is None else token_dimension(encoder)
        if tokens and (encoder is None or size is None):
            raise DataError(
                f"the model {collection.model!r} has no token vectors; give "
                "token_encoder=load_encoder() (--token-model) when it is attached, or tokens=False"
            )
        before = collection.enriched.record
        record = EnrichmentRecord(words=words, complete=before is not None and before.complete)
        if tokens and encoder is not None:
            record = replace(
                record,
                model=encoder.name,
                fingerprint=encoder.fingerprint,
                token_dimension=size or 0,
            )
        if before is not None and before != record:
            raise DataError(
                f"{collection.where} was enriched otherwise before ({before.facts()[0][1]}); take that away "
                "first, with remove_enrichment() (surprise-rerank enrich --remove)"
            )
        return cls(collection, record, encoder if tokens else None)

    def cost(self) -> EnrichCost:
        """What `run` would cost. Some documents are encoded for it, and nothing is written."""
        documents = list(self.collection.sample_documents(_TRIED))
        begun = time.perf_counter()
        size = sum(_size(*made) for made in self._made(documents))
        seconds = time.perf_counter() - begun
        per = max(len(documents), 1)
        is_new = self.collection.enriched.record is None
        waiting = len(self.collection) if is_new else sum(len(changed) for _, changed in self._waiting())
        cut = 0.0
        if self.encoder is not None and self.encoder.window is not None and documents:
            spans = self.encoder.token_spans([document.content for document in documents])
            cut = sum(len(own) > self.encoder.window for own in spans) / len(documents)
        return EnrichCost(waiting, size * waiting // per, seconds * waiting / per, cut)

    def run(self, advance: Callable[[int], None] = lambda n: None) -> EnrichReport:
        """Bring all points up to date; what is there already is left, so that an interrupted run goes on.

        Args:
            advance: called with the number of points of every finished part.

        Raises:
            StoreError: if the collection beside cannot be written to; what was written before stays.
            DataError: if that is somebody else's.
        """
        self._prepare()
        enriched = unchanged = written = 0
        seen: set[str] = set()
        for page, changed in self._waiting():
            seen.update(record.id for record in page)
            written += self._write(changed)
            enriched += len(changed)
            unchanged += len(page) - len(changed)
            advance(len(page))
        removed, files = self._remove_others(seen), self.collection.enriched.files
        if self.record.words is not None and (enriched or removed or self._counted() != len(seen)):
            files.write_file(WORD_STATISTICS, self._word_statistics(seen).to_bytes())
        if not self.record.complete:
            files.write_file(RECORD, replace(self.record, complete=True).to_bytes())
        return EnrichReport(enriched, unchanged, removed, written)

    @property
    def _target(self) -> ClientEngine:
        return self.collection.enriched.points

    def _prepare(self) -> None:
        """Make the place. The record comes before it: what is there can be taken away, whatever happens."""
        engine = self._target
        is_there = engine.exists()
        if is_there:
            _require_ours(engine)
        self.collection.enriched.files.write_file(RECORD, self.record.to_bytes())
        if not is_there:
            d = self.record.token_dimension
            tokens = {TOKENS: token_params(d, engine.token_numbers(d))} if self.record.model else {}
            words = None if self.record.words is None else {WORDS: models.SparseVectorParams()}
            spread = self.collection.points.spread()
            engine.create_of(
                tokens, spread, sparse_vectors_config=words, on_disk_payload=True, metadata=_MARK
            )

    def _waiting(self) -> Iterator[tuple[list[Record], list[tuple[Record, Document]]]]:
        """Pages of points, and those of them whose text is new or another."""
        layout, target = self.collection.payloads, self._target
        is_there = target.exists()
        for page in self.collection.points.scroll(layout.text_fields(), batch=_PAGE):
            ids = [point_id(record.id) for record in page]
            found = target.retrieve(ids, (HASH,)) if is_there else []
            known = {record.id: record.payload.get(HASH) for record in found}
            documents = [(record, layout.document(record.id, record.payload)) for record in page]
            yield page, [own for own in documents if known.get(own[0].id) != own[1].content_hash]

    def _made(self, documents: Sequence[Document]) -> list[tuple[Payload, dict[str, StoredVector]]]:
        """What points of documents get: payload keys, and vectors by name."""
        made: list[tuple[Payload, dict[str, StoredVector]]] = [
            ({HASH: document.content_hash}, {}) for document in documents
        ]
        texts = [document.content for document in documents]
        if self.encoder is not None and texts:
            tokens = pooled_tokens(encode_documents(self.encoder, texts).require_tokens())
            for i, (payload, vectors) in enumerate(made):
                payload.update(token_payload(tokens, i))
                vectors[TOKENS] = document_vectors(tokens, i)
        if self.record.words is not None:
            for (_, vectors), sparse in zip(made, self.record.words.documents(texts), strict=True):
                if len(sparse.indices):
                    vectors[WORDS] = sparse
        return made

    def _write(self, todo: Sequence[tuple[Record, Document]]) -> int:
        """Write what points lack, in requests of a bounded size; returns the bytes, about."""
        made = self._made([document for _, document in todo])
        points = [
            Point(point_id(record.id), vectors, payload)
            for (record, _), (payload, vectors) in zip(todo, made, strict=True)
        ]
        for part in in_batches(points, lambda point: point.size, REQUEST_BYTES):
            self._target.upsert(part)
        return sum(point.size for point in points)

    def _remove_others(self, seen: set[str]) -> int:
        """Remove what was added to points that are gone."""
        pages = self._target.scroll((), batch=10_000)
        others = [record.id for page in pages for record in page if record.id not in seen]
        # Another run may have enriched documents that were added behind this one.
        there = {own.id for own in self.collection.points.retrieve([point_id(name) for name in others], ())}
        gone = [point_id(name) for name in others if name not in there]
        if gone:
            self._target.delete(gone)
        return len(gone)

    def _counted(self) -> int:
        """Of how many points the statistics of words are; -1 without any."""
        content = self.collection.enriched.files.read_file(WORD_STATISTICS)
        return -1 if content is None else TermStatistics.from_bytes(content).points

    def _word_statistics(self, seen: set[str]) -> TermStatistics:
        """The statistics of the words of these points, in one scroll."""
        parts = []
        for page in self._target.scroll((), (WORDS,), batch=2000):
            own = [record for record in page if record.id in seen]
            parts.append(TermStatistics.of(to_terms(own, WORDS)))
        return TermStatistics.total(parts)


def _require_ours(engine: ClientEngine) -> None:
    if _MARK.items() <= dict(engine.metadata()).items() or not engine.count():
        return
    raise DataError(
        f"{engine.where} was not made by surprise-rerank, but has the name of what is added beside a "
        "collection; rename it"
    )


def remove_enrichment(collection: AttachedCollection) -> bool:
    """Take away everything that was added; returns whether there was anything.

    Raises:
        StoreError: if the collection beside cannot be written to.
        DataError: if it is somebody else's.
    """
    enriched = collection.enriched
    if enriched.files.read_file(RECORD) is None:
        return False
    if enriched.points.exists():
        _require_ours(enriched.points)
        enriched.points.drop()
    for name in (WORD_STATISTICS, RECORD):  # the record last, so that an interrupted call goes on
        enriched.files.delete_file(name)
    if not enriched.files.engine.count():  # nobody keeps questions or backgrounds there
        enriched.files.engine.drop()
    return True


def _size(payload: Payload, vectors: Mapping[str, StoredVector]) -> int:
    """Bytes that a point takes, about, as Qdrant stores it."""
    numbers = sum(
        8 * len(own.indices) if isinstance(own, SparseVector) else 2 * own.size for own in vectors.values()
    )
    return numbers + sum(len(str(own)) for own in payload.values())
