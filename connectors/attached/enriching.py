"""Adds token vectors, words and moments to a foreign collection, or beside it, and takes them away again.

The collection's own vectors and payload stay as they are: payload keys of other names are set, and a sparse
vector of another name is added. What is written last for a point is the hash of its text, so that an
interrupted run goes on where it stopped, and points that were added or changed are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qdrant_client import models

from surprise_rerank.connectors.attached.collection import AttachedCollection
from surprise_rerank.connectors.attached.enriched import (
    HASH,
    KEYS,
    MOMENTS,
    RECORD,
    STATISTICS,
    TOKENS,
    WORD_STATISTICS,
    WORDS,
    Enriched,
    EnrichmentRecord,
    moments_payload,
    token_parts,
)
from surprise_rerank.connectors.attached.payloads import point_id
from surprise_rerank.connectors.attached.statistics import dense_of
from surprise_rerank.connectors.qdrant.engines import versions
from surprise_rerank.connectors.qdrant.engines.client import REQUEST_BYTES, ClientEngine, token_params
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.schema import Payload, Point, Record, StoredVector, to_terms
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.batches import in_batches
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.core.tokens.form import POOLING
from surprise_rerank.core.vectors import is_linear
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_documents, token_dimension
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble

_MARK = {"surprise-rerank": "beside"}  # metadata of a collection that was made here
_PAGE = 256  # points that are read, encoded and written together
_TRIED = 32  # documents that a dry run encodes, for its estimate


@dataclass(frozen=True, slots=True)
class EnrichReport:
    """What a run did.

    Attributes:
        enriched: points that were new, changed, or not finished.
        unchanged: points that had everything.
        removed: points beside the collection, of documents that are gone.
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
        place: where it would be written.
        cut: share of the documents whose text is longer than the model reads.
    """

    points: int
    bytes: int
    seconds: float
    place: str
    cut: float

    def __str__(self) -> str:
        cut = f"; {self.cut:.0%} of the texts are longer than the model reads, and cut" if self.cut else ""
        return (
            f"{self.points} points, about {self.bytes / 2**20:.1f} MiB {self.place}, "
            f"{self.seconds:.0f} s of encoding{cut}; nothing was written"
        )


@dataclass(frozen=True, slots=True)
class Enricher:
    """Brings what was added up to date.

    Attributes:
        collection: that is enriched.
        record: what is to be there.
        encoder: of the token vectors; None without them.
        ensemble: whose moments points get; None without them.
    """

    collection: AttachedCollection
    record: EnrichmentRecord
    encoder: Encoder | None
    ensemble: Ensemble | None

    @classmethod
    def planned(
        cls,
        collection: AttachedCollection,
        *,
        tokens: bool,
        words: Bm25 | None,
        moments: bool,
        in_place: bool,
        ensemble: Ensemble | None = None,
        pooling: float | None = None,
    ) -> Enricher:
        """What is asked for, if it makes sense.

        Args:
            collection: that is enriched.
            tokens: whether points get token vectors.
            words: settings of sparse vectors; None for none.
            moments: whether points get moments.
            in_place: whether the collection's own points get them.
            ensemble: that moments are over; the collection's where None.
            pooling: tokens that are merged into one vector; as they are, or as in new indexes, where None.

        Raises:
            DataError: if nothing is asked for, moments beside the collection, tokens without a model of
                tokens, or pooling without tokens; if it was enriched otherwise before.
        """
        if not (tokens or words or moments):
            raise DataError("nothing to add; ask for tokens, words or moments")
        if moments and not in_place:
            raise DataError(
                "moments are for the formula query, which reads the collection's own payload; give "
                "in_place=True (--in-place), or leave them out: beside it surprise is computed here"
            )
        encoder = collection.token_encoder
        size = None if encoder is None else token_dimension(encoder)
        if tokens and (encoder is None or size is None):
            raise DataError(
                f"the model {collection.model!r} has no token vectors; give "
                "token_encoder=load_encoder() (--token-model) when it is attached, or tokens=False"
            )
        if not tokens and pooling is not None:
            raise DataError("pooling is of token vectors; leave it away with tokens=False")
        if moments and not is_linear(collection.vectors.similarity):
            raise DataError(
                f"{collection.where} compares by {collection.vectors.distance.value}, whose scores Qdrant's "
                "formula has no moments for; leave moments out"
            )
        if moments and ensemble is None:
            ensemble = collection.ensemble()
        before = collection.enriched.record
        if before is not None and before.model and pooling is None:
            pooling = before.pooling
        record = EnrichmentRecord(
            in_place=in_place,
            model=encoder.name if tokens and encoder is not None else "",
            fingerprint=encoder.fingerprint if tokens and encoder is not None else "",
            token_dimension=size or 0 if tokens else 0,
            pooling=POOLING if pooling is None else TokenForm(pooling=pooling).pooling,
            words=words,
            ensemble="" if ensemble is None else ensemble.identity,
        )
        if before is not None and not _is_alike(before, record):
            raise DataError(
                f"{collection.where} was enriched otherwise before ({before.facts()[0][1]}); take that away "
                "first, with remove_enrichment() (surprise-rerank enrich --remove)"
            )
        begun = replace(record, complete=before is not None and before.complete)
        return cls(collection, begun, encoder if tokens else None, ensemble)

    def cost(self) -> EnrichCost:
        """What `run` would cost. Some documents are encoded for it, and nothing is written."""
        sample = self.collection.sample(_TRIED, frozenset({"dense", "documents"}))
        documents = list(sample.documents or ())
        begun = time.perf_counter()
        size = sum(_size(*made) for made in self._made(documents))
        seconds = time.perf_counter() - begun
        per = max(len(documents), 1)
        is_new = self.collection.enriched.record is None
        waiting = len(self.collection) if is_new else sum(len(changed) for _, changed, _ in self._waiting())
        cut = 0.0
        if self.encoder is not None and self.encoder.window is not None and documents:
            spans = self.encoder.token_spans([document.content for document in documents])
            cut = sum(len(own) > self.encoder.window for own in spans) / len(documents)
        place = "in place" if self.record.in_place else f"in {self._target.collection!r}"
        return EnrichCost(waiting, size * waiting // per, seconds * waiting / per, place, cut)

    def run(self, advance: Callable[[int], None] = lambda n: None) -> EnrichReport:
        """Bring all points up to date; what is there already is left, so that an interrupted run goes on.

        Args:
            advance: called with the number of points of every finished part.

        Raises:
            StoreError: if the collection cannot be written to; what was written before stays.
        """
        self._prepare()
        enriched = unchanged = written = 0
        seen: set[str] = set()
        for page, changed, unmeasured in self._waiting(vectors=self.ensemble is not None):
            seen.update(record.id for record in page)
            written += self._write(changed) + self._measure(unmeasured)
            enriched += len(changed) + len(unmeasured)
            unchanged += len(page) - len(changed) - len(unmeasured)
            advance(len(page))
        removed = 0 if self.record.in_place else self._remove_others(seen)
        if self.record.words is not None and (enriched or removed or self._counted() != len(seen)):
            statistics = self._word_statistics(seen)
            self._enriched.files.write_file(WORD_STATISTICS, statistics.to_bytes())
        if not self.record.complete:
            self._enriched.files.write_file(RECORD, replace(self.record, complete=True).to_bytes())
        return EnrichReport(enriched, unchanged, removed, written)

    @property
    def _target(self) -> ClientEngine:
        return self._enriched.points

    @property
    def _enriched(self) -> Enriched:
        return self.collection.enriched_as(self.record)

    def _prepare(self) -> None:
        """Make the place. The record comes before it: what is there can be taken away, whatever happens."""
        engine, files = self._target, self._enriched.files
        is_there = not self.record.in_place and engine.exists()
        if is_there:
            _require_ours(engine)
        if self.ensemble is not None:
            if engine.kind == "server":
                versions.require(versions.Feature.FORMULA, engine.nodes, "leave moments out")
            files.write_file(MOMENTS, self.ensemble.to_bytes())
        files.write_file(RECORD, self.record.to_bytes())
        d = self.record.token_dimension
        tokens = {TOKENS: token_params(d, engine.token_numbers(d))} if self.record.model else {}
        words = {} if self.record.words is None else {WORDS: models.SparseVectorParams()}
        if not self.record.in_place and not is_there:
            spread = self.collection.points.spread()
            engine.create_of(
                tokens, spread, sparse_vectors_config=words or None, on_disk_payload=True, metadata=_MARK
            )
        elif self.record.in_place:
            engine.add_vectors({**tokens, **words})

    def _waiting(
        self, *, vectors: bool = False
    ) -> Iterator[tuple[list[Record], list[tuple[Record, Document]], list[Record]]]:
        """Pages of points; those whose text is new or another, and those that lack moments only."""
        layout, engine = self.collection.payloads, self.collection.points
        fields = (*layout.text_fields(), *((HASH, STATISTICS) if self.record.in_place else ()))
        names = (self.collection.vectors.dense,) if vectors else ()
        beside_exists = not self.record.in_place and self._target.exists()
        for page in engine.scroll(fields, names, batch=_PAGE):
            known = {record.id: record.payload for record in page}
            if not self.record.in_place:
                ids = [point_id(record.id) for record in page]
                found = self._target.retrieve(ids, (HASH,)) if beside_exists else []
                known = {record.id: record.payload for record in found}
            changed: list[tuple[Record, Document]] = []
            unmeasured: list[Record] = []
            for record in page:
                document = layout.document(record.id, record.payload)
                own = known.get(record.id, {})
                if own.get(HASH) != document.content_hash:
                    changed.append((record, document))
                elif self.ensemble is not None and own.get(STATISTICS) != self.record.ensemble:
                    unmeasured.append(record)
            yield page, changed, unmeasured

    def _made(self, documents: Sequence[Document]) -> list[tuple[Payload, dict[str, StoredVector]]]:
        """What points of documents get: payload keys, and vectors by name."""
        made: list[tuple[Payload, dict[str, StoredVector]]] = [
            ({HASH: document.content_hash}, {}) for document in documents
        ]
        texts = [document.content for document in documents]
        if self.encoder is not None and texts:
            form = TokenForm(pooling=self.record.pooling)
            tokens = form.of(encode_documents(self.encoder, texts).require_tokens())
            for i, (payload, vectors) in enumerate(made):
                more, vectors[TOKENS] = token_parts(tokens, i)
                payload.update(more)
        if self.record.words is not None:
            for (_, vectors), sparse in zip(made, self.record.words.documents(texts), strict=True):
                if len(sparse.indices):
                    vectors[WORDS] = sparse
        return made

    def _write(self, todo: Sequence[tuple[Record, Document]]) -> int:
        """Write what points lack, in requests of a bounded size; returns the bytes, about."""
        made = self._made([document for _, document in todo])
        moments = self._moments([record for record, _ in todo])
        points = [
            Point(point_id(record.id), vectors, {**payload, **moments.get(record.id, {})})
            for (record, _), (payload, vectors) in zip(todo, made, strict=True)
        ]
        written = 0
        for part in in_batches(points, lambda point: point.size, REQUEST_BYTES):
            written += sum(point.size for point in part)
            if self.record.in_place:
                self._add_to(part)
            else:
                self._target.upsert(part)
        return written

    def _add_to(self, points: Sequence[Point]) -> None:
        """Add to points in place; those that their owner has deleted meanwhile are left out."""
        try:
            # The payload has the hash, which says that the point is finished: it comes last.
            vectors = [(point.id, point.vectors) for point in points if point.vectors]
            if vectors:
                self._target.set_vectors(vectors)
            self._target.set_payloads([(point.id, point.payload) for point in points])
        except (StoreError, KeyError):  # local mode has no error of its own for it
            there = {record.id for record in self._target.retrieve([point.id for point in points], ())}
            left = [point for point in points if str(point.id) in there]
            if len(left) == len(points):
                raise
            self._add_to(left)

    def _measure(self, records: Sequence[Record]) -> int:
        """Write the moments of points that have the rest; returns the bytes, about."""
        points = [Point(point_id(name), {}, payload) for name, payload in self._moments(records).items()]
        self._add_to(points)
        return sum(point.size for point in points)

    def _moments(self, records: Sequence[Record]) -> dict[str, Payload]:
        if self.ensemble is None or not records:
            return {}
        vectors, rows = dense_of(records, self.collection.vectors)
        found = self.ensemble.moments(vectors)
        # A point without a dense vector is found by no search: it counts as finished.
        every = {record.id: {STATISTICS: self.record.ensemble} for record in records}
        return every | {
            records[row].id: moments_payload(mean, deviation, self.record.ensemble)
            for row, mean, deviation in zip(rows, found.mean, found.deviation, strict=True)
        }

    def _remove_others(self, seen: set[str]) -> int:
        """Points beside the collection of documents that are gone."""
        pages = self._target.scroll((), batch=10_000)
        others = [record.id for page in pages for record in page if record.id not in seen]
        # Another run may have enriched documents that were added behind this one.
        ids = [point_id(name) for name in others]
        there = {record.id for record in self.collection.points.retrieve(ids, ())}
        gone = [name for name in others if name not in there]
        if gone:
            self._target.delete([point_id(name) for name in gone])
        return len(gone)

    def _counted(self) -> int:
        """Of how many points the statistics of words are; -1 without any."""
        content = self._enriched.files.read_file(WORD_STATISTICS)
        return -1 if content is None else TermStatistics.from_bytes(content).points

    def _word_statistics(self, seen: set[str]) -> TermStatistics:
        """The statistics of the words of these points, in one scroll."""
        parts = []
        for page in self._target.scroll((), (WORDS,), batch=2000):
            own = [record for record in page if record.id in seen]
            parts.append(TermStatistics.of(to_terms(own, WORDS)))
        return TermStatistics.total(parts)


def _is_alike(one: EnrichmentRecord, other: EnrichmentRecord) -> bool:
    """Whether both are of the same things in the same place; moments can be of another ensemble."""
    plain = [replace(own, ensemble=str(bool(own.ensemble)), complete=True) for own in (one, other)]
    return plain[0] == plain[1]


def _require_ours(engine: ClientEngine) -> None:
    if _MARK.items() <= dict(engine.metadata()).items() or not engine.count():
        return
    raise DataError(
        f"{engine.where} was not made by surprise-rerank, but has the name of what is added beside a "
        "collection; rename it, or enrich in place"
    )


def remove_enrichment(collection: AttachedCollection) -> bool:
    """Take away everything that was added, in place or beside; returns whether there was anything.

    Raises:
        StoreError: if the collection cannot be written to.
        DataError: if what is beside it is somebody else's.
    """
    enriched = collection.enriched
    record = enriched.record
    if record is None:
        return False
    if record.in_place:
        enriched.points.delete_fields(KEYS)
        for name, is_there in ((WORDS, record.words is not None), (TOKENS, bool(record.model))):
            if is_there:
                enriched.points.delete_vector(name)
    elif enriched.points.exists():
        _require_ours(enriched.points)
        enriched.points.drop()
    for name in (WORD_STATISTICS, MOMENTS, RECORD):  # the record last, so that an interrupted call goes on
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
