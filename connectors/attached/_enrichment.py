"""What `enrich` adds beside a foreign collection: how it is written, read, and taken away.

A collection `NAME.surprise` has a point of the same id for each point, with the vectors of its tokens and
words, and the hash of its text, so that an interrupted run goes on where it stopped, and points that were
added or changed are found. `NAME.surprise.files` has the record of what was added, for all who attach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace

from qdrant_client import models

from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.connectors._progress import Advance
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant._manifest import IndexOptions, VectorForm
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout
from surprise_rerank.connectors.qdrant._schema import BESIDE, HASH, Point
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles, Files
from surprise_rerank.connectors.qdrant._writing.indexing import Indexer, PointMaker, SyncReport
from surprise_rerank.connectors.qdrant._writing.kept_terms import FILE, KeptTerms, changing_points
from surprise_rerank.core._json_values import sealed, unsealed
from surprise_rerank.encoders.base import Encoder, token_dimension

RECORD = "enriched.json"
SUFFIX = ".surprise"

_FORMAT = 7  # of the record; no other one is read
_MARK = {"surprise-rerank": "beside"}  # metadata of a collection that was made here
_PAGE = 256  # points that are read together
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

    def to_bytes(self) -> bytes:
        """As JSON."""
        return sealed(asdict(self), _FORMAT)

    @classmethod
    def read(cls, files: Files, where: str) -> EnrichmentRecord | None:
        """The record that is kept; None without one, a DataError if it cannot be read."""
        content = files.read_file(RECORD)
        if content is None:
            return None
        advice = (
            "delete the collections whose names end in .surprise and .surprise.files, and enrich it again"
        )
        values = unsealed(content, _FORMAT, f"{where}: the record of what was added", advice)
        words = values.pop("words")
        return cls(**values, words=None if words is None else Bm25(**words))

    def __str__(self) -> str:
        parts = [f"tokens of {self.model}, {self.token_dimension} dimensions"] * bool(self.model)
        parts += [f"words (BM25, {self.words.language})"] if self.words else []
        return ", ".join(parts) + ("" if self.complete else "; not finished, and not read: enrich again")


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Reads what was added."""

    points: ClientEngine  # the collection that has it
    files: CollectionFiles  # of the collection beside
    record: EnrichmentRecord | None  # what was added; None for nothing
    terms: KeptTerms  # of the words that were added

    @classmethod
    def of(cls, points: ClientEngine, files: CollectionFiles, where: str) -> Enrichment:
        """Read the record of what was added to a collection."""
        terms = KeptTerms(points, files, BESIDE.words, is_shared=True)
        return cls(points, files, EnrichmentRecord.read(files, where), terms)

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

    def remove(self) -> bool:
        """Take away everything that was added; returns whether there was anything."""
        is_enriched = self.files.read_file(RECORD) is not None
        if is_enriched and self.points.exists():
            _require_ours(self.points)
            self.points.drop()
        if is_enriched:
            self.files.delete_tables({""})
            for name in (FILE, RECORD):  # the record last, so that an interrupted call goes on
                self.files.delete_file(name)
        if self.files.kept.exists() and not self.files.kept.count():  # no questions or backgrounds either
            self.files.kept.drop()
        return is_enriched


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
    """Brings what was added up to date, by the writer of our own indexes."""

    points: ClientEngine  # of the collection
    payloads: PayloadLayout  # how points become documents
    enriched: Enrichment  # what was added before
    record: EnrichmentRecord  # what is to be there
    encoder: Encoder | None  # of the token vectors; None without them

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
        maker = self._maker()
        pieces = [piece for (piece,) in maker.pieces([replace(d, id="0") for d in documents])]
        size = sum(_size(point) for point in maker.points(pieces, maker.encoded(pieces)))
        seconds = time.perf_counter() - begun
        per, cut = max(len(documents), 1), 0.0
        waiting = self.points.count() if self.enriched.record is None else self._waiting()
        if self.encoder is not None and self.encoder.window is not None and documents:
            spans = self.encoder.token_spans([document.content for document in documents])
            cut = sum(len(tokens) > self.encoder.window for tokens in spans) / len(documents)
        return EnrichCost(waiting, size * waiting // per, seconds * waiting / per, cut)

    def run(
        self, work: Advance, counting: Callable[[Callable[[], int]], AbstractContextManager[None]]
    ) -> SyncReport:
        """Add token vectors and words to all points that lack them; an interrupted run goes on.

        `work` is called with the number of documents done, `counting` is entered with a count of the changes.

        Raises:
            StoreError: if the collection beside cannot be written to; what was written before stays.
            IndexingError: if no request can hold a point; all others are enriched then.
            DataError: if another program made that collection.
        """
        beside, files, words = self.enriched.points, self.enriched.files, self.record.words
        kept = None if words is None else self.enriched.terms
        # What is read for a change waits as long for a server that is away as the change itself.
        with self.points.changing(), beside.changing():
            self._prepare()
            with changing_points(beside, kept) as points:
                indexer = Indexer(beside, points, self._maker(), work, lambda _: words, may_be_empty=True)
                try:
                    with counting(lambda: indexer.changed):
                        return indexer.run(self._documents(), prune=True)
                finally:
                    if indexer.is_complete and not self.record.complete:
                        files.write_file(RECORD, replace(self.record, complete=True).to_bytes())

    def _maker(self) -> PointMaker:
        words = self.record.words
        options = IndexOptions(passages=None, tokens=self.encoder is not None, bm25=words)
        return PointMaker(options, self.encoder, words=words, form=BESIDE)

    def _prepare(self) -> None:
        """Make the collection beside. Its record is written first, so that a crash leaves nothing unknown."""
        engine = self.enriched.points
        is_there = engine.exists()
        if is_there:
            _require_ours(engine)
        self.enriched.files.write_file(RECORD, self.record.to_bytes())
        if not is_there:
            form = VectorForm(self.record.token_dimension, is_tokens=True)
            tokens = {BESIDE.tokens: form} if self.record.model else {}
            words = None if self.record.words is None else {BESIDE.words: models.SparseVectorParams()}
            spread = self.points.spread()
            engine.create_of(
                tokens, spread, sparse_vectors_config=words, on_disk_payload=True, metadata=_MARK
            )

    def _documents(self) -> Iterator[Document]:
        """The collection's documents, whose ids are those of their points."""
        for page in self.points.scroll(self.payloads.text_fields(), batch=_PAGE):
            for record in page:
                document = self.payloads.document(record.id, record.payload)
                yield Document(record.id, document.text, document.title)

    def _waiting(self) -> int:
        """How many documents have nothing added, or of an earlier text."""
        pages = self.enriched.points.scroll((HASH,)) if self.enriched.points.exists() else ()
        hashes = {record.id: record.payload[HASH] for page in pages for record in page}
        return sum(hashes.get(document.id) != document.content_hash for document in self._documents())


def _require_ours(engine: ClientEngine) -> None:
    if not _MARK.items() <= dict(engine.metadata()).items() and engine.count():
        raise DataError(
            f"{engine.where} was not made by surprise-rerank, but has the name of what is added beside a "
            "collection; rename it"
        )


def _size(point: Point) -> int:
    """Bytes that a point takes, about, as Qdrant stores it."""
    numbers = sum(
        8 * len(vector.indices) if isinstance(vector, SparseVector) else 2 * vector.size
        for vector in point.vectors.values()
    )
    return numbers + sum(len(str(value)) for value in point.payload.values())
