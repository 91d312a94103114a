"""A collection of Qdrant that somebody else made: searched, fetched and sampled as an index of ours is."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TypeAlias

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.attached.enriched import (
    SUFFIX,
    WORD_STATISTICS,
    WORDS,
    Enriched,
    EnrichmentRecord,
    behind,
)
from surprise_rerank.connectors.attached.kept import files_name
from surprise_rerank.connectors.attached.payloads import PayloadLayout, is_random, point_id
from surprise_rerank.connectors.attached.pools import ForeignPools
from surprise_rerank.connectors.attached.statistics import count_ensemble, count_terms
from surprise_rerank.connectors.attached.vectors import VectorLayout
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.schema import PointId, Record
from surprise_rerank.connectors.qdrant.search.pools import Search
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched, Words
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files, digest_of
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.arrays import VectorSimilarity
from surprise_rerank.core.tokens import POOLING, TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

SparseEmbed: TypeAlias = Callable[[str], SparseVector]

ENSEMBLE = "ensemble.npz"  # of questions that were set
_VECTORS = "vectors.npz"

# A mean or deviation of which a twentieth is of other vectors changes by less than its own error of a sample.
_STALE = 0.05
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
        self._counted: dict[str, Ensemble | TermStatistics] = {}
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
    def pools(self) -> ForeignPools:
        """Candidates from requests to the engine; what retrievers are made of."""
        reads_added = self.enriched.has_tokens and self.token_encoder is not None
        return ForeignPools(self._engine, self.vectors, self.payloads, self.enriched, reads_added)

    @property
    def words(self) -> Words | None:
        """The words of documents: those that were added, or the collection's own sparse vectors."""
        own, added = self.vectors, self.enriched.words
        if added is not None:
            return Words(WORDS, self._weighted, self.added_terms, kind="words")
        if self.sparse is None or own.sparse is None:
            return None
        return Words(own.sparse, self.sparse, self._own_terms, own.idf, kind="words")

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
    def has_dense(self) -> bool:
        """Whether documents have one dense vector each; else they are found by MaxSim of token vectors."""
        return self.vectors.has_dense

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
        return self.vectors.tokens is not None or self.pools.reads_added

    @property
    def pooling(self) -> float:
        """Tokens merged into a fetched vector: multivectors come as they are, added ones as in an index."""
        return POOLING if self.pools.reads_added else 1

    @property
    def tokens_of_another(self) -> str:
        """What to do where token vectors were added, and the collection was attached without their model."""
        record = self.enriched.record
        model = "" if record is None else record.model
        return f"its token vectors are of {model!r}; attach it with that model as token_encoder="

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
        pools = self.pools
        dense = pools.asked(query)
        chosen = options.exactly() if exact else options
        return pools.run(Search(lambda limit: [pools.near(dense, limit)], depth, fields, chosen))

    def fetch(
        self,
        ids: Sequence[str],
        fields: frozenset[Field],
        *,
        skip_missing: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """Documents by id; see `Searched.fetch`."""
        points = self.pools.points_of(ids)
        found = self._engine.retrieve(
            [point for point in points.values() if point is not None],
            self.pools.payload_of(fields),
            self.pools.vectors_of(fields),
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
        return self._found([there[name] for name in names], fields, names)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a uniform sample of so many documents, the same for the same points."""
        return self.sample(size, frozenset()).ids

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A uniform sample of the documents, the same for the same points.

        Args:
            size: how many; all where there are fewer.
            fields: what to fetch with them.
        """
        with self._lock:
            if size not in self._samples:
                self._samples[size] = self._sampled(size)
            ids = self._samples[size]
        records = self._engine.retrieve(
            [point_id(name) for name in ids], self.pools.payload_of(fields), self.pools.vectors_of(fields)
        )
        found = {record.id: record for record in records}
        there = [found[name] for name in ids if name in found]
        return self._found(there, fields, [self.payloads.document_id(own.id, own.payload) for own in there])

    def refresh(self, advance: Callable[[int], None] = lambda n: None) -> None:
        """Count the statistics that are kept again; others are counted when they are first needed.

        Args:
            advance: called with the number of points of every page.
        """
        with self._lock:
            self._samples = {}
            names = (_VECTORS, self._terms_file)
            self._counted = {
                name: self._count(name, advance) for name in names if self.files.read_file(name) is not None
            }

    def own_ensemble(self) -> Ensemble:
        """The ensemble of the collection's own vectors, counted in one scroll where none is kept."""
        found = self._statistics(_VECTORS)
        assert isinstance(found, Ensemble)
        return found

    def ensemble(self) -> Ensemble:
        """What surprise is measured against: questions that were set, or the collection's own vectors."""
        content = self.files.read_file(ENSEMBLE)
        if content is None:
            return self.own_ensemble()
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

    def _own_terms(self) -> TermStatistics:
        found = self._statistics(self._terms_file)
        assert isinstance(found, TermStatistics)
        return found

    def _weighted(self, text: str) -> SparseVector:
        """A question's words with their weights over those that were added."""
        assert self.enriched.words is not None
        return self.added_terms().weighted(self.enriched.words.query(text))

    def _found_enriched(self) -> Enriched:
        name = self._engine.collection
        files = CollectionFiles(self._open_engine(files_name(name)), self._engine.spread)
        record = EnrichmentRecord.read(files, self.where)
        found = Enriched(self._open_engine(name + SUFFIX), files, record)
        if found.has_tokens and self.token_encoder is not None:
            found.check(self.token_encoder.name, self.token_encoder.fingerprint, self.where)
        return found

    @property
    def _terms_file(self) -> str:
        return f"terms-{digest_of((self.vectors.sparse or '').encode())[:8]}.npz"

    def _statistics(self, name: str) -> Ensemble | TermStatistics:
        """The statistics of a file; counted in one scroll where none are kept that fit."""
        with self._lock:
            if name not in self._counted:
                self._counted[name] = self._kept(name) or self._count(name)
            return self._counted[name]

    def _kept(self, name: str) -> Ensemble | TermStatistics | None:
        content, points = self.files.read_file(name), len(self)
        if content is None:
            return None
        if name != _VECTORS:
            terms = TermStatistics.from_bytes(content)
            return terms if abs(terms.points - points) <= _STALE * points else None
        found, own = Ensemble.from_bytes(content, f"{self.where}: {name}"), self.vectors
        is_same = self.model in ("", found.model) or not found.model
        is_alike = (found.dimension, found.similarity) == (own.size, own.similarity)
        return found if is_same and is_alike and abs(found.count - points) <= _STALE * points else None

    def _count(self, name: str, advance: Callable[[int], None] = lambda n: None) -> Ensemble | TermStatistics:
        own = self.vectors
        found: Ensemble | TermStatistics
        if name == _VECTORS:
            found = count_ensemble(self._engine, own, self.model, advance)
        else:
            found = count_terms(self._engine, own.sparse or "", advance)
        self.files.write_file(name, found.to_bytes())
        return found

    def _sampled(self, size: int) -> tuple[str, ...]:
        """Ids of points: the smallest where ids are random, or else those of the smallest hashes."""
        first = next(iter(self._engine.scroll((), batch=min(size, 256))), [])
        if self.engine == "server" and all(is_random(record.id) for record in first):
            page = next(iter(self._engine.scroll((), batch=size)), [])
            return tuple(record.id for record in page)
        ids = [record.id for page in self._engine.scroll((), batch=_PAGE) for record in page]
        return tuple(sorted(ids, key=_hashed)[:size])

    def there(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates whose documents were not deleted meanwhile, and their points."""
        points = self.pools.points_of(pool.ids)
        kept = {i: own for i, name in enumerate(pool.ids) if (own := points[name]) is not None}
        return pool.take(list(kept)), list(kept.values())

    def _found(self, records: Sequence[Record], fields: frozenset[Field], names: Sequence[str]) -> Candidates:
        """The pool of points that were asked for by id, under the names of their documents."""
        pools = self.pools
        answers = pools.answered(pools.parts(records, fields))
        whole = {record.id for record in pools.whole(records, fields, answers)}
        kept = [i for i, record in enumerate(records) if record.id in whole]
        return pools.made([records[i] for i in kept], fields, {}, answers, [names[i] for i in kept])

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of the documents; see `Searched.token_sample`."""
        found = self.sample(size, frozenset({"tokens"}))
        return found.ids, found.require_tokens()

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by added words must know: of how many documents they are out of date."""
        pool, points = self.there(pool)
        if pool.documents is None or not points or self.enriched.words is None:
            return ()
        request = self.enriched.request(points, tokens=False, words=True)
        found = self.pools.answered({"added": request})["added"]
        return behind([str(point) for point in points], pool.documents, found)


def _hashed(name: str) -> int:
    return uuid.uuid5(uuid.NAMESPACE_OID, name).int
