"""What `enrich` adds beside a foreign collection: how it is written, read, and taken away.

A collection `NAME.surprise` has a point of the same id for each point, with the vectors of its tokens and
words, and the hash of its text, so that an interrupted run goes on where it stopped, and points that were
added or changed are found. `NAME.surprise.files` has the record of what was added, for all who attach.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from qdrant_client import models

from surprise_rerank.connectors.attached.layouts import PayloadLayout, point_id
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine, token_params
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.multivectors import (
    TOKEN_FIELDS,
    document_vectors,
    token_payload,
)
from surprise_rerank.connectors.qdrant.schema import (
    HASH,
    Payload,
    Point,
    PointId,
    Record,
    StoredVector,
)
from surprise_rerank.connectors.qdrant.search.queries import by_id
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.qdrant.writing.writer import (
    UPSERT_BYTES,
    UPSERT_POINTS,
    too_large_to_store,
    upsert_in_halves,
)
from surprise_rerank.core.batches import in_batches
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_documents, token_dimension
from surprise_rerank.errors import DataError, IndexMismatchError

RECORD = "enriched.json"
WORD_STATISTICS = "words.npz"
# No names that a collection of somebody else has: a request goes to where its vector is.
WORDS, TOKENS = "surprise_words", "surprise_tokens"
SUFFIX = ".surprise"

_ABSENT = {"token_count": 0, "token_shape": ""}
_SCHEMA = 5  # of the record; no other one is read
_MARK = {"surprise-rerank": "beside"}  # metadata of a collection that was made here
_PAGE = 256  # points that are read, encoded and written together
TRIED = 32  # documents that a dry run encodes, for its estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRecord:
    """The record of what was added beside a collection.

    Attributes:
        model, fingerprint, token_dimension: of the token vectors; empty without them.
        words: settings of the sparse vectors; None without them.
        complete: whether a run came to its end; until then nobody reads what was added.
    """

    model: str = ""
    fingerprint: str = ""
    token_dimension: int = 0
    words: Bm25 | None = None
    complete: bool = False
    schema: int = _SCHEMA

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, files: Files, where: str) -> EnrichmentRecord | None:
        """The record that is kept; None without one, a DataError if it cannot be read."""
        content = files.read_file(RECORD)
        if content is None:
            return None
        try:
            values: dict[str, Any] = json.loads(content)
            words = values.pop("words")
            if values["schema"] != _SCHEMA:
                raise ValueError("of another schema")
            return cls(**values, words=None if words is None else Bm25(**words))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{where} was enriched by another version, or the record of it is damaged; delete its "
                "collections whose names end in .surprise and .surprise.files, and enrich it again"
            ) from error

    def __str__(self) -> str:
        parts = [f"tokens of {self.model}, {self.token_dimension} dimensions"] * bool(self.model)
        parts += [f"words (BM25, {self.words.language})"] if self.words else []
        return ", ".join(parts) + ("" if self.complete else "; not finished, and not read: enrich again")


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Reads what was added."""

    points: ClientEngine  # the collection that has it
    files: CollectionFiles  # of the collection beside
    record: EnrichmentRecord | None = None  # what was added; None for nothing

    @property
    def has_tokens(self) -> bool:
        """Whether it has token vectors."""
        return self.record is not None and self.record.complete and bool(self.record.model)

    @property
    def words(self) -> Bm25 | None:
        """The settings of its sparse vectors; None without them."""
        return self.record.words if self.record is not None and self.record.complete else None

    def check(self, model: Encoder, where: str) -> None:
        """Refuse a model that is not the one of the token vectors."""
        record = self.record
        if record is None or not record.model:
            return
        if (model.name, model.fingerprint) != (record.model, record.fingerprint):
            raise IndexMismatchError(
                f"{where} was enriched with token vectors of {record.model!r} ({record.fingerprint}), the "
                f"question's would be of {model.name!r} ({model.fingerprint}); give that model as "
                "token_encoder=, or enrich again"
            )

    def request(self, points: Sequence[PointId], *, tokens: bool = True) -> models.QueryRequest:
        """A request for what was added to points: the hashes of their texts, and token vectors."""
        return by_id(points, (HASH, *TOKEN_FIELDS), (TOKENS,)) if tokens else by_id(points, (HASH,), (WORDS,))

    def token_records(self, points: Sequence[str], records: Sequence[Record]) -> list[Record]:
        """The points, of what was found by `request`, with the token vectors of none where they lack them."""
        added = {record.id: record for record in records if TOKENS in record.vectors}
        return [added.get(point) or Record(point, _ABSENT, {}) for point in points]

    def remove(self) -> bool:
        """Take away everything that was added; returns whether there was anything."""
        is_enriched = self.files.read_file(RECORD) is not None
        if is_enriched and self.points.exists():
            _require_ours(self.points)
            self.points.drop()
        if is_enriched:
            for name in (WORD_STATISTICS, RECORD):  # the record last, so that an interrupted call goes on
                self.files.delete_file(name)
        if self.files.kept.exists() and not self.files.kept.count():  # no questions or backgrounds either
            self.files.kept.drop()
        return is_enriched


def behind(
    points: Sequence[str], documents: Sequence[Document] | None, records: Sequence[Record]
) -> tuple[str, ...]:
    """The note on a ranking for which some points have nothing added, or of an earlier text."""
    hashes = {record.id: record.payload.get(HASH) for record in records}
    texts = documents or (None,) * len(points)
    old = sum(
        hashes.get(point) is None or (document is not None and hashes[point] != document.content_hash)
        for point, document in zip(points, texts, strict=True)
    )
    note = f"what was added for {old} of {len(points)} documents is missing or of an earlier text; run sync"
    return (note,) if old else ()


@dataclass(frozen=True, slots=True)
class EnrichReport:
    """What a run did: the points that it enriched, that had everything, that are gone, and bytes, about."""

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
    """What a run would cost, about: points, bytes, seconds of encoding, and the share of texts cut."""

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
    """Brings what was added up to date."""

    points: ClientEngine  # of the collection
    payloads: PayloadLayout  # how points become documents
    enriched: Enrichment  # what was added before
    record: EnrichmentRecord  # what is to be there
    encoder: Encoder | None  # of the token vectors; None without them
    changed: Counter[str] = field(default_factory=Counter)  # points that were enriched, or whose are removed
    oversized: dict[str, str] = field(default_factory=dict)  # points that no request holds, with the reason

    @classmethod
    def planned(
        cls,
        points: ClientEngine,
        payloads: PayloadLayout,
        enriched: Enrichment,
        encoder: Encoder | None,
        words: Bm25 | None,
    ) -> Enricher:
        """Return what adds token vectors of an encoder, or words; a DataError if that makes no sense."""
        if encoder is None and words is None:
            raise DataError("nothing to add; ask for tokens or words")
        before = enriched.record
        record = EnrichmentRecord(words=words, complete=before is not None and before.complete)
        if encoder is not None:
            size = token_dimension(encoder) or 0
            record = replace(
                record, model=encoder.name, fingerprint=encoder.fingerprint, token_dimension=size
            )
        if before is not None and before != record:
            raise DataError(
                f"{points.where} was enriched otherwise before ({before}); take that away first, with "
                "remove_enrichment() (surprise-rerank enrich --remove)"
            )
        return cls(points, payloads, enriched, record, encoder)

    def cost(self, documents: Sequence[Document]) -> EnrichCost:
        """What `run` would cost. Some documents are encoded for it, and nothing is written."""
        begun = time.perf_counter()
        size = sum(_size(*parts) for parts in self._made(documents))
        seconds = time.perf_counter() - begun
        per, cut = max(len(documents), 1), 0.0
        is_new = self.enriched.record is None
        waiting = self.points.count() if is_new else sum(len(changed) for _, changed in self._waiting())
        if self.encoder is not None and self.encoder.window is not None and documents:
            spans = self.encoder.token_spans([document.content for document in documents])
            cut = sum(len(tokens) > self.encoder.window for tokens in spans) / len(documents)
        return EnrichCost(waiting, size * waiting // per, seconds * waiting / per, cut)

    def run(self, advance: Callable[[int], None]) -> EnrichReport:
        """Bring all points up to date; what is there already is left, so that an interrupted run goes on.

        `advance` is called with the number of points of every finished part.

        Raises:
            StoreError: if the collection beside cannot be written to; what was written before stays.
            IndexingError: if no request can hold a point; all others are enriched then.
            DataError: if that is somebody else's.
        """
        # What is read for a change waits as long for a server that is away as the change itself.
        with self.points.changing(), self.enriched.points.changing():
            return self._run(advance)

    def _run(self, advance: Callable[[int], None]) -> EnrichReport:
        self._prepare()
        unchanged = written = 0
        seen: set[str] = set()
        for page, changed in self._waiting():
            seen.update(record.id for record in page)
            refused_before = len(self.oversized)
            written += self._write(changed)
            self.changed["enriched"] += len(changed) - (len(self.oversized) - refused_before)
            unchanged += len(page) - len(changed)
            advance(len(page))
        self.changed["removed"] = removed = self._remove_others(seen)
        files, enriched = self.enriched.files, self.changed["enriched"]
        if self.record.words is not None:
            kept = files.read_file(WORD_STATISTICS)
            counted = -1 if kept is None else TermStatistics.from_bytes(kept).points
            if enriched or removed or counted != len(seen):
                files.write_file(WORD_STATISTICS, self._word_statistics(seen).to_bytes())
        if not self.record.complete:
            files.write_file(RECORD, replace(self.record, complete=True).to_bytes())
        if self.oversized:
            raise too_large_to_store(self.oversized)
        return EnrichReport(enriched, unchanged, removed, written)

    def _prepare(self) -> None:
        """Make the place. The record comes before it: what is there can be taken away, whatever happens."""
        engine = self.enriched.points
        is_there = engine.exists()
        if is_there:
            _require_ours(engine)
        self.enriched.files.write_file(RECORD, self.record.to_bytes())
        if not is_there:
            d = self.record.token_dimension
            tokens = {TOKENS: token_params(d, engine.token_numbers(d))} if self.record.model else {}
            words = None if self.record.words is None else {WORDS: models.SparseVectorParams()}
            spread = self.points.spread()
            engine.create_of(
                tokens, spread, sparse_vectors_config=words, on_disk_payload=True, metadata=_MARK
            )

    def _waiting(self) -> Iterator[tuple[list[Record], list[tuple[Record, Document]]]]:
        """Pages of points, and those of them whose text is new or another."""
        layout, target = self.payloads, self.enriched.points
        is_there = target.exists()
        for page in self.points.scroll(layout.text_fields(), batch=_PAGE):
            ids = [point_id(record.id) for record in page]
            stored = target.retrieve(ids, (HASH,)) if is_there else []
            hashes = {record.id: record.payload.get(HASH) for record in stored}
            documents = [(record, layout.document(record.id, record.payload)) for record in page]
            yield page, [pair for pair in documents if hashes.get(pair[0].id) != pair[1].content_hash]

    def _made(self, documents: Sequence[Document]) -> list[tuple[Payload, dict[str, StoredVector]]]:
        """What points of documents get: payload keys, and vectors by name."""
        parts: list[tuple[Payload, dict[str, StoredVector]]] = [
            ({HASH: document.content_hash}, {}) for document in documents
        ]
        texts = [document.content for document in documents]
        if self.encoder is not None and texts:
            tokens = pooled_tokens(encode_documents(self.encoder, texts).require_tokens())
            for i, (payload, vectors) in enumerate(parts):
                payload.update(token_payload(tokens, i))
                vectors[TOKENS] = document_vectors(tokens, i)
        if self.record.words is not None:
            for (_, vectors), sparse in zip(parts, self.record.words.documents(texts), strict=True):
                if len(sparse.indices):
                    vectors[WORDS] = sparse
        return parts

    def _write(self, todo: Sequence[tuple[Record, Document]]) -> int:
        """Write what points lack, in requests of a bounded size; returns the bytes, about."""
        parts = self._made([document for _, document in todo])
        points = [
            Point(point_id(record.id), vectors, payload)
            for (record, _), (payload, vectors) in zip(todo, parts, strict=True)
        ]
        for batch in in_batches(points, lambda point: point.size, UPSERT_BYTES, UPSERT_POINTS):
            refused = upsert_in_halves(self.enriched.points.upsert, batch)
            self.oversized.update((str(point), reason) for point, reason in refused.items())
        return sum(point.size for point in points)

    def _remove_others(self, seen: set[str]) -> int:
        """Remove what was added to points that are gone."""
        pages = self.enriched.points.scroll((), batch=10_000)
        others = [point_id(record.id) for page in pages for record in page if record.id not in seen]
        # Another run may have enriched documents that were added behind this one.
        present = {record.id for record in self.points.retrieve(others, ())}
        gone = [point for point in others if str(point) not in present]
        if gone:
            self.enriched.points.delete(gone)
        return len(gone)

    def _word_statistics(self, seen: set[str]) -> TermStatistics:
        """The statistics of the words of these points, in one scroll."""
        pages = self.enriched.points.scroll((), (WORDS,), batch=2000)
        return TermStatistics.counted(
            ([record for record in page if record.id in seen] for page in pages), WORDS
        )


def _require_ours(engine: ClientEngine) -> None:
    if not _MARK.items() <= dict(engine.metadata()).items() and engine.count():
        raise DataError(
            f"{engine.where} was not made by surprise-rerank, but has the name of what is added beside a "
            "collection; rename it"
        )


def _size(payload: Payload, vectors: Mapping[str, StoredVector]) -> int:
    """Bytes that a point takes, about, as Qdrant stores it."""
    numbers = sum(
        8 * len(vector.indices) if isinstance(vector, SparseVector) else 2 * vector.size
        for vector in vectors.values()
    )
    return numbers + sum(len(str(value)) for value in payload.values())
