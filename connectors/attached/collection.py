"""A collection of Qdrant that somebody else made: searched, fetched and sampled as an index of ours is."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.attached.enriched import (
    KEYS,
    SUFFIX,
    WORD_STATISTICS,
    Enriched,
    EnrichmentRecord,
)
from surprise_rerank.connectors.attached.payloads import (
    PayloadLayout,
    haystack_point,
    is_random,
    one_id,
    point_id,
    point_of,
)
from surprise_rerank.connectors.attached.statistics import (
    Changes,
    CollectionScan,
    CollectionStatistics,
    dense_of,
    terms_of,
    tokens_of,
)
from surprise_rerank.connectors.attached.vectors import VectorLayout
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine, PayloadChoice, payload_selector
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.schema import PointId, Record
from surprise_rerank.connectors.qdrant.search.inclusion import AskedInclusion
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    dense_vector,
    request,
)
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files, digest_of
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch, TokenForm
from surprise_rerank.core.vectors import VectorSimilarity
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

SparseEmbed: TypeAlias = Callable[[str], SparseVector]

ENSEMBLE = "ensemble.npz"


_PAGE = 10_000  # ids in a request
_PATIENCE = 2.0  # seconds until it is looked whether a run has counted words anew; see `KeptTerms`


class AttachedCollection(Searched):
    """A foreign collection as it is; nothing is written into it. Threads may share it.

    Args:
        engine: of the collection.
        vectors: which are compared.
        payloads: how points become documents.
        encoder: of questions; the model of the collection's dense vectors. None for what asks no questions.
        model: its name; empty where it is not known.
        files: where statistics are kept.
        open_engine: name -> the engine of another collection in the same Qdrant.
        token_encoder: of token vectors that are added; None without any.
        sparse: a question's sparse vector, for the collection's own ones; None where it is not known.

    Attributes:
        enriched: what was added to it or beside it.
    """

    def __init__(
        self,
        engine: ClientEngine,
        vectors: VectorLayout,
        payloads: PayloadLayout,
        encoder: Encoder | None,
        model: str,
        files: Files,
        open_engine: Callable[[str], ClientEngine],
        token_encoder: Encoder | None = None,
        sparse: SparseEmbed | None = None,
    ) -> None:
        self._engine, self._open_engine = engine, open_engine
        self.vectors, self.payloads, self._files = vectors, payloads, files
        self._encoder, self._model = encoder, model
        self.sparse = sparse
        self.token_encoder = token_encoder
        self.enriched = self._found_enriched()
        self._statistics: CollectionStatistics | None = None
        self._is_new = True  # whether kept statistics were not compared with the collection yet
        self._samples: dict[int, tuple[str, ...]] = {}
        self._added: tuple[str, TermStatistics] | None = None  # of added words, with their file's digest
        self._looked = 0.0
        self._lock = threading.RLock()

    @property
    def engine(self) -> EngineKind:
        """Which engine it has: `local` or `server`."""
        return self._engine.kind

    @property
    def id_key(self) -> str:
        """The key of a document's id in the payload; empty where the point's id is it."""
        return self.payloads.id_path

    @property
    def metadata_key(self) -> str:
        """The key of the metadata in the payload; empty where they are all other keys."""
        return self.payloads.metadata

    @property
    def points(self) -> ClientEngine:
        """The collection's points."""
        return self._engine

    @property
    def where(self) -> str:
        """The place, for messages."""
        return self._engine.where

    @property
    def encoder(self) -> Encoder:
        """The model of questions.

        Raises:
            DataError: if the collection was attached without one.
        """
        if self._encoder is None:
            raise DataError(f"{self.where} was attached without a model of questions; give embed=")
        return self._encoder

    @property
    def model(self) -> str:
        """The name of the model of questions; empty where it is not known."""
        return self._model

    @property
    def fingerprint(self) -> str:
        """What tells the model's weights apart; empty where it is not known."""
        return "" if self._encoder is None else self._encoder.fingerprint

    @property
    def similarity(self) -> VectorSimilarity:
        """How dense vectors are compared."""
        return self.vectors.similarity

    @property
    def language(self) -> str:
        """Of the documents' words."""
        return (self.enriched.words or Bm25()).language

    @property
    def files(self) -> Files:
        """Where statistics, questions, backgrounds and weights are kept."""
        return self._files

    @property
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that surprise is measured against."""
        return self.ensemble().identity

    def sample_documents(self, size: int) -> tuple[Document, ...]:
        """A uniform sample of so many documents; all where there are fewer."""
        return self.sample(size, frozenset({"documents"})).documents or ()

    @property
    def has_tokens(self) -> bool:
        """Whether token vectors of documents are stored that a question's can be compared with."""
        return self.vectors.tokens is not None or self.reads_added

    @property
    def token_form(self) -> TokenForm:
        """The form of the token vectors that are fetched: multivectors come as they are."""
        return self.enriched.token_form if self.reads_added else TokenForm(pooling=1)

    @property
    def tokens_of_another(self) -> str:
        """What to do where token vectors were added, and the collection was attached without their model."""
        record = self.enriched.record
        model = "" if record is None else record.model
        return f"its token vectors are of {model!r}; attach it with that model as token_encoder="

    @property
    def reads_added(self) -> bool:
        """Whether token vectors were added that a question's can be compared with."""
        return self.enriched.has_tokens and self.token_encoder is not None

    def __len__(self) -> int:
        return self._engine.count()

    def search(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """The documents nearest to a query; see `Searched.search`."""
        vector = models.NearestQuery.model_construct(nearest=dense_vector(query).tolist())
        stage = Stage(vector, self.vectors.using, f"{self.vectors.score} of dense vectors", depth)
        chosen = options.exactly() if exact else options
        return self.running([stage], depth, fields, self.vectors.score, chosen, self.vectors.scores)

    def running(
        self,
        stages: Sequence[Stage],
        depth: int,
        fields: frozenset[Field],
        name: str,
        options: SearchOptions,
        scores: Callable[[Float32Array], Float32Array] = lambda found: found,
    ) -> Candidates:
        """The best documents by what stages of Qdrant rank by; `scores` says what its scores mean here."""
        _require_plain(options)
        asked = request(stages, depth, (), self._vectors(fields), options)
        asked = asked.model_copy(update={"with_payload": payload_selector(self._payload(fields))})
        records = self._engine.query(asked)
        values = scores(np.array([record.score for record in records], np.float32))
        return replace(self._candidates(records, fields), scores={name: np.asarray(values, np.float64)})

    def fetch(
        self,
        ids: Sequence[str],
        fields: frozenset[Field],
        *,
        skip_missing: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """Documents by id; see `Searched.fetch`."""
        points = self.points_of(ids)
        found = self._engine.retrieve(
            [point for point in points.values() if point is not None],
            self._payload(fields),
            self._vectors(fields),
        )
        records = {record.id: record for record in found}
        there = {name: records[str(p)] for name, p in points.items() if p is not None and str(p) in records}
        missing = [name for name in ids if name not in there]
        if missing and not skip_missing:
            raise DataError(
                f"{len(missing)} documents are not in {self.where}, such as {missing[0]!r}; they may have "
                "been deleted meanwhile"
            )
        # Under the names that were asked for: a UUID can be written in several ways.
        names = [name for name in dict.fromkeys(ids) if name in there]
        return self._candidates([there[name] for name in names], fields, names)

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A uniform sample of the documents, the same for the same points.

        Args:
            size: how many; all where there are fewer.
            fields: what to fetch with them.
        """
        with self._lock:
            ids = self._samples.get(size)
            if ids is None:
                ids = self._samples[size] = self._sampled(size)
        records = self._engine.retrieve(
            [point_id(name) for name in ids], self._payload(fields), self._vectors(fields)
        )
        found = {record.id: record for record in records}
        return self._candidates([found[name] for name in ids if name in found], fields)

    def statistics(self, advance: Callable[[int], None] = lambda n: None) -> CollectionStatistics:
        """The statistics of all points; counted in one scroll where none are kept that fit.

        Args:
            advance: called with the number of points of every page that is counted.
        """
        with self._lock:
            if self._statistics is None:
                self._statistics = self._kept()
            if self._statistics is None:
                self._statistics = CollectionStatistics.counted(self.scan, advance=advance)
                self.files.write_file(self._statistics_file, self._statistics.to_bytes())
            elif self._is_new and self._statistics.is_far_from(self.scan, len(self)):
                self.refresh(advance=advance)
            self._is_new = False
            return self._statistics

    def refresh(self, watch: str | None = None, advance: Callable[[int], None] = lambda n: None) -> Changes:
        """Bring the statistics up to date with what was added, changed and deleted.

        Args:
            watch: by what changed points are found, from now on: `text` (all texts are read), a key of the
                payload that changes with it, such as `updated_at`, or `ids` (added and deleted ones only).
                As before where None; `text` at first.
            advance: called with the number of points of every page.
        """
        with self._lock:
            before = self._statistics or self._kept()
            if before is None or (watch is not None and watch != before.watch):
                found = CollectionStatistics.counted(self.scan, watch or "text", advance)
                count = len(found.points)
                changes = Changes(added=0 if before else count, read=count, counted_again=True)
            else:
                found, changes = before.refreshed(self.scan, advance)
            self._statistics, self._samples, self._is_new = found, {}, False
            self.files.write_file(self._statistics_file, found.to_bytes())
            return changes

    def ensemble(self) -> Ensemble:
        """What surprise is measured against: questions that were set, or the collection's own vectors."""
        content = self.files.read_file(ENSEMBLE)
        if content is None:
            return self.enriched.ensemble() if self.enriched.has_moments else self.statistics().ensemble
        found = Ensemble.from_bytes(content, f"{self.where}: {ENSEMBLE}")
        if found.dimension != self.vectors.size or self.model not in ("", found.model):
            raise DataError(
                f"{self.where}: the logged questions that are kept were encoded by {found.model!r} "
                f"({found.dimension} dimensions), the model is {self.model!r} ({self.vectors.size}); give "
                "them again with set_questions, or none with set_questions([])"
            )
        return found

    def set_questions(self, questions: Sequence[str]) -> Ensemble:
        """Measure surprise against logged questions, in place of the collection's own vectors.

        Args:
            questions: that were asked; some hundred. None goes back to the collection's own vectors.

        Raises:
            DataError: if there is one question only.
        """
        if isinstance(questions, str):
            raise DataError(f"questions must be a list of strings, got one: {questions[:40]!r}")
        if not questions:
            self.files.delete_file(ENSEMBLE)
            return self.ensemble()
        if len(questions) < 2:
            raise DataError("one question has no spread; give at least two, better some hundred")
        vectors = self.encoder.encode(list(questions), kind="query").dense
        found = Ensemble.from_vectors(vectors, model=self.model, similarity=self.vectors.similarity)
        self.files.write_file(ENSEMBLE, found.to_bytes())
        return found

    def enriched_as(self, record: EnrichmentRecord) -> Enriched:
        """What is added according to a record, and where."""
        return replace(self.enriched, points=self._place(record), record=record)

    def reload(self) -> None:
        """Find what was added, or taken away, meanwhile."""
        self.enriched, self._added = self._found_enriched(), None

    def added_terms(self) -> TermStatistics:
        """What every term weighs over the words that were added, as the last run has counted them.

        Raises:
            DataError: if the statistics are gone.
        """
        files = self.enriched.files
        with self._lock:
            if self._added is None or time.monotonic() > self._looked + _PATIENCE:
                if self._added is None or not files.holds(WORD_STATISTICS, self._added[0]):
                    content = files.read_file(WORD_STATISTICS)
                    if content is None:
                        raise DataError(
                            f"{self.where}: the statistics of the words that were added are gone; run sync "
                            "(surprise-rerank enrich)"
                        )
                    self._added = digest_of(content), TermStatistics.from_bytes(content)
                self._looked = time.monotonic()
            return self._added[1]

    def _found_enriched(self) -> Enriched:
        name = self._engine.collection + SUFFIX
        files = CollectionFiles(self._open_engine(f"{name}.files"), self._engine.spread)
        record = EnrichmentRecord.read(files, self.where)
        found = Enriched(self._engine if record is None else self._place(record), files, record)
        if found.has_tokens and self.token_encoder is not None:
            found.check(self.token_encoder.name, self.token_encoder.fingerprint, self.where)
        return found

    def _place(self, record: EnrichmentRecord) -> ClientEngine:
        return self._engine if record.in_place else self._open_engine(self._engine.collection + SUFFIX)

    @property
    def scan(self) -> CollectionScan:
        """Reads all points."""
        return CollectionScan(self._engine, self.vectors, self.payloads, self.model)

    @property
    def _statistics_file(self) -> str:
        """Of these vectors; others of the collection have files of their own."""
        names = f"{self.vectors.dense}\0{self.vectors.sparse}"
        return f"statistics-{hashlib.sha256(names.encode()).hexdigest()[:8]}.npz"

    def _kept(self) -> CollectionStatistics | None:
        """The statistics that are kept, if they are of these vectors."""
        content = self.files.read_file(self._statistics_file)
        if content is None:
            return None
        found = CollectionStatistics.from_bytes(content, f"{self.where}: {self._statistics_file}")
        kind = (found.ensemble.dimension, found.ensemble.similarity, found.terms is None)
        own = (self.vectors.size, self.vectors.similarity, self.vectors.sparse is None)
        same = self.model in ("", found.ensemble.model) or not found.ensemble.model
        return found if kind == own and same else None

    def _sampled(self, size: int) -> tuple[str, ...]:
        """Ids of points: the smallest where ids are random, or else those of the smallest hashes."""
        first = next(iter(self._engine.scroll((), batch=min(size, 256))), [])
        if self.engine == "server" and all(is_random(record.id) for record in first):
            page = next(iter(self._engine.scroll((), batch=size)), [])
            return tuple(record.id for record in page)
        ids = [record.id for page in self._engine.scroll((), batch=_PAGE) for record in page]
        return tuple(sorted(ids, key=_hashed)[:size])

    def points_of(self, ids: Sequence[str]) -> dict[str, PointId | None]:
        """The point of each document; None for what can be no document's id."""
        if self.payloads.hashed_ids:
            return {name: haystack_point(name) for name in ids}
        if not self.payloads.id:
            return {name: point_of(name) for name in ids}
        found: dict[str, PointId] = {}
        for condition in self.payloads.id_conditions(ids):
            if any(name not in found for name in ids):
                pages = self._engine.scroll(
                    self.payloads.id_fields, condition=models.Filter(must=[condition])
                )
                found |= {self._name_of(record): point_id(record.id) for page in pages for record in page}
        others = {name: point_of(name) for name in ids if name not in found}
        asked = [point for point in others.values() if point is not None]
        there = self._engine.retrieve(asked, self.payloads.id_fields)
        unnamed = {record.id for record in there if self._name_of(record) == record.id}
        found |= {
            name: point for name, point in others.items() if point is not None and str(point) in unnamed
        }
        return {name: found.get(name) for name in ids}

    def there(self, pool: Candidates) -> tuple[Candidates, list[str]]:
        """The candidates whose documents were not deleted meanwhile, and their points."""
        points = self.points_of(pool.ids)
        kept = [i for i, name in enumerate(pool.ids) if points[name] is not None]
        return pool.take(kept), [str(points[pool.ids[i]]) for i in kept]

    def _name_of(self, record: Record) -> str:
        return self.payloads.document_id(record.id, record.payload)

    def names_of(self, points: Sequence[str]) -> dict[str, str]:
        """Point -> its document's id, of the points that are there."""
        found = self._engine.retrieve([point_id(name) for name in points], self.payloads.id_fields)
        return {record.id: self.payloads.document_id(record.id, record.payload) for record in found}

    def among(self, points: Sequence[str], condition: models.Filter) -> frozenset[str]:
        """Those of these points that a filter lets through."""
        ids = models.HasIdCondition(has_id=[point_id(name) for name in points])
        narrowed = models.Filter(must=[ids, condition])
        pages = self._engine.scroll((), batch=max(len(points), 1), condition=narrowed) if points else ()
        return frozenset(record.id for page in pages for record in page)

    def _payload(self, fields: frozenset[Field]) -> PayloadChoice:
        if "documents" in fields or ("tokens" in fields and self.reads_added):
            return models.PayloadSelectorExclude(exclude=list(KEYS))
        return self.payloads.id_fields

    def _vectors(self, fields: frozenset[Field]) -> tuple[str, ...]:
        own = self.vectors
        names = [own.dense] * ("dense" in fields)
        if "tokens" in fields and own.tokens is not None and not self.reads_added:
            names.append(own.tokens)
        if "terms" in fields and own.sparse is not None and self.enriched.words is None:
            names.append(own.sparse)
        return tuple(names)

    def _candidates(
        self, records: Sequence[Record], fields: frozenset[Field], names: Sequence[str] | None = None
    ) -> Candidates:
        """The pool; points without a dense vector are left out where those are asked for.

        Several points of one id are refused, where the ids were not asked for by `names`.
        """
        if names is None:
            names = [self.payloads.document_id(record.id, record.payload) for record in records]
            if self.payloads.id and len(set(names)) < len(names):
                raise one_id(self.where, self.payloads.id, names)
        dense = None
        if "dense" in fields:
            dense, rows = dense_of(records, self.vectors)
            records, names = [records[i] for i in rows], [names[i] for i in rows]
        documents = None
        if "documents" in fields or ("tokens" in fields and self.reads_added):
            documents = tuple(self.payloads.document(record.id, record.payload) for record in records)
        tokens: TokenBatch | None = None
        notes: tuple[str, ...] = ()
        if "tokens" in fields:
            tokens, notes = self._tokens(records, documents)
        terms: TermBatch | None = None
        if "terms" in fields:
            terms, more = self._terms(records, documents)
            notes += more
        return Candidates(
            ids=tuple(names),
            dense=dense,
            tokens=tokens,
            terms=terms,
            documents=documents if "documents" in fields else None,
            notes=notes,
        )

    def _tokens(
        self, records: Sequence[Record], documents: Sequence[Document] | None
    ) -> tuple[TokenBatch, tuple[str, ...]]:
        """Token vectors of points: multivectors, or what was added; computed now where that is behind."""
        if not self.reads_added or documents is None:
            return tokens_of(records, self.vectors, self.where), ()
        assert self.token_encoder is not None  # a record of tokens is read with one only
        return self.enriched.tokens_of([record.id for record in records], documents, self.token_encoder)

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of the documents; see `Searched.token_sample`."""
        found = self.sample(size, frozenset({"tokens"}))
        return found.ids, found.require_tokens()

    def with_inclusion(self, pool: Candidates, asked: AskedInclusion, options: SearchOptions) -> Candidates:
        """Candidates with inclusion of a question's tokens in what was added; `Searched.with_inclusion`."""
        pool, points = self.there(pool)
        return self.enriched.with_inclusion(pool, points, asked)

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by added words must know: of how many documents they are out of date."""
        pool, points = self.there(pool)
        if pool.documents is None or not len(pool):
            return ()
        _, old = self.enriched.words_of(points, pool.documents)
        return _old_words(old, len(pool))

    def _terms(
        self, records: Sequence[Record], documents: Sequence[Document] | None
    ) -> tuple[TermBatch, tuple[str, ...]]:
        """The words of points: their own sparse vectors, or what was added."""
        if self.enriched.words is None:
            return terms_of(records, self.vectors), ()
        terms, old = self.enriched.words_of([record.id for record in records], documents)
        return terms, _old_words(old, len(records))


def _require_plain(options: SearchOptions) -> None:
    """Refuse what is for an index."""
    for name in ("consistency", "tenant"):
        if getattr(options, name) is not None:
            raise DataError(
                f"{name}={getattr(options, name)!r} is for an index of surprise-rerank; leave it away for a "
                "collection that somebody else made"
            )


def _old_words(old: int, count: int) -> tuple[str, ...]:
    note = f"words of {old} of {count} documents are not stored, or of an earlier text; run sync"
    return (note,) if old else ()


def _hashed(name: str) -> int:
    return uuid.uuid5(uuid.NAMESPACE_OID, name).int
