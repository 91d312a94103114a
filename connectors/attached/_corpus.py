"""The documents of a collection that somebody else made, as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.attached._enrichment import SUFFIX, Enrichment
from surprise_rerank.connectors.attached._finding import (
    SparseEmbed,
    dense_model,
)
from surprise_rerank.connectors.attached._kept import files_name
from surprise_rerank.connectors.attached._neighbours import texts_around
from surprise_rerank.connectors.attached._statistics import CountedStatistics
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.connections import (
    Connection,
)
from surprise_rerank.connectors.qdrant._lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout
from surprise_rerank.connectors.qdrant._schema import BESIDE
from surprise_rerank.connectors.qdrant._search.beside import added_to, out_of_date
from surprise_rerank.connectors.qdrant._search.corpus import Corpus, Words
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles, Files
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.tokens import POOLING, TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.rerank._grouping import TextsAround
from surprise_rerank.rerank._surprise import SurpriseReranker
from surprise_rerank.surprise._ensemble import Ensemble

_QUESTIONS = "ensemble.npz"  # that were set


class AttachedCorpus(Corpus):
    """The documents of a collection that somebody else made, with what was added beside it.

    Attributes:
        points: the collection itself.
        vectors: the collection's own; `layout` has those that were added, too.
        enriched: what was added.
        token_encoder: the model of token vectors, if there is any.
    """

    points: ClientEngine

    def __init__(
        self,
        connection: Connection,
        points: ClientEngine,
        vectors: VectorLayout,
        payloads: PayloadLayout,
        models: tuple[Encoder | None, Encoder | None],
        sparse: SparseEmbed | None,
        files: Files,
    ) -> None:
        self._connection, self.points, self.vectors, self.payloads = connection, points, vectors, payloads
        self.given_encoder, self.token_encoder = models
        encoder = self.given_encoder
        self.model, self.fingerprint = (
            ("", "") if encoder is None else (dense_model(encoder).name, encoder.fingerprint)
        )
        self._sparse, self.files = sparse, files
        self.where = points.where
        self.id_key, self.metadata_key = payloads.id_path, payloads.metadata
        self.enriched = self._found_enriched()
        self._counted = CountedStatistics(points, vectors, files, self.model)

    def __len__(self) -> int:
        return self.points.count()

    @property
    def layout(self) -> VectorLayout:
        """The vectors that are compared: token vectors that were added come before the collection's."""
        record = self.enriched.record
        if record is None or not self.enriched.has_tokens or self.token_encoder is None:
            return self.vectors
        return replace(
            self.vectors,
            tokens=BESIDE.tokens,
            token_size=record.token_dimension,
            token_cosines=True,
            token_fields=TOKEN_FIELDS,
            pooling=POOLING,
        )

    @property
    def pools(self) -> Pools:
        """Candidates from requests to the engine; what retrievers are made of."""
        return Pools(self.points, self.where, self.layout, self.payloads, added=self.enriched.points)

    def texts_around(self, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
        """The texts of so many chunks before and after each document, where payloads tell which these are."""
        return texts_around(self.pools, documents, count)

    @property
    def words(self) -> Words | None:
        """The words of documents: those that were added, or the collection's own sparse vectors."""
        vectors = self.vectors
        if self.enriched.words is not None:
            return Words(BESIDE.words, self._weighted, self.enriched.terms.statistics, kind="words")
        if self._sparse is None or vectors.sparse is None:
            return None
        return Words(
            vectors.sparse,
            self._sparse,
            lambda terms: self._counted.terms(),
            vectors.idf,
            kind="words",
            counts=vectors.idf,
        )

    @property
    def encoder(self) -> Encoder:
        """The model of questions; a DataError if the collection was attached without one."""
        return border.present(f"the model of {self.where}", self.given_encoder, "attach it with embed=")

    @property
    def language(self) -> str:
        """The language of the documents' words."""
        return (self.enriched.words or Bm25()).language

    @property
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that surprise is measured against."""
        return self.ensemble().identity

    @property
    def default_system(self) -> str:
        """The best system that the collection has enough for."""
        if not self.vectors.has_dense:
            return "dynamax" if self.words is None else "fusion"
        return "auto" if is_linear(self.vectors.similarity) else "fusion"

    def remedy(self, what: str) -> str:
        """Return what a user can do where there are no `words` or no `token vectors`."""
        record = self.enriched.record
        if record is not None and not record.complete:
            return "enrich it again, which was not finished"
        if what == "words":
            return "enrich(words=True), or sparse= for the question's"
        if record is not None and record.model and not self.has_tokens:
            return f"its token vectors are of {record.model!r}; attach it with that model as token_encoder="
        return "enrich(tokens=True)"

    def surprise_reranker(self) -> SurpriseReranker:
        """Return the re-ranker of given documents by surprise."""
        return SurpriseReranker(self.ensemble(), weight=1.0)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a uniform sample of so many documents, the same for the same points."""
        return self.sample(size, frozenset()).ids

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of documents; see `Corpus.token_sample`."""
        sampled = self.sample(size, frozenset({"tokens"}))
        return sampled.ids, sampled.require_tokens()

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A sample of so many documents, the same for the same points; see `Corpus.sample`."""
        border.count("size", size)
        border.choices("fields", fields, get_args(Field))
        return self.pools.of_points(self._counted.sample(size), fields)

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by added words must know: of how many documents they are out of date."""
        pool, points = self.pools.still_stored(pool)
        if pool.documents is None or not points or self.enriched.words is None:
            return ()
        (records,) = self.pools.ask([added_to(points, tokens=False)])
        return out_of_date(points, pool.documents, records)

    def _weighted(self, text: str) -> SparseVector:
        """A question's words with their weights over those that were added."""
        assert self.enriched.words is not None
        words = self.enriched.words.query(text)
        return self.enriched.terms.statistics(words.indices).weighted(words) if len(words.indices) else words

    def ensemble(self) -> Ensemble:
        """What surprise is measured against: questions that were set, or the collection's own vectors."""
        content = self.files.read_file(_QUESTIONS)
        if content is None:
            return self._counted.ensemble()
        ensemble = Ensemble.from_bytes(content, f"{self.where}: {_QUESTIONS}")
        if ensemble.dimension != self.vectors.size or self.model not in ("", ensemble.model):
            raise DataError(
                f"{self.where}: the logged questions that are kept were encoded by {ensemble.model!r} "
                f"({ensemble.dimension} dimensions), the model is {self.model!r} ({self.vectors.size}); give "
                "them again with set_questions, or none with set_questions([])"
            )
        return ensemble

    def set_questions(self, questions: Ensemble | None) -> None:
        """Measure surprise against these questions; None goes back to the collection's own vectors."""
        if questions is None:
            self.files.delete_file(_QUESTIONS)
        else:
            self.files.write_file(_QUESTIONS, questions.to_bytes())

    def refresh(self) -> None:
        """Count the statistics that are kept again; others are counted when they are first needed."""
        self._counted.refresh()

    def reload(self) -> None:
        """Find what was added, or taken away, meanwhile."""
        self.enriched = self._found_enriched()

    def _found_enriched(self) -> Enrichment:
        name, open_engine = self.points.collection, self._connection.engine
        files = CollectionFiles(open_engine(files_name(name)), self.points.spread)
        enriched = Enrichment.of(open_engine(name + SUFFIX), files, self.where)
        if enriched.has_tokens and self.token_encoder is not None:
            enriched.check(self.token_encoder, self.where)
        return enriched
