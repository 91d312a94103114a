"""The documents of an index of ours, as they are read: their vectors, words, samples and statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors.qdrant._lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._schema import (
    BM25,
    DENSE,
    ID,
    METADATA,
)
from surprise_rerank.connectors.qdrant._search.corpus import Corpus, Words
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._writing import statistics
from surprise_rerank.connectors.qdrant._writing.kept_terms import KeptTerms
from surprise_rerank.connectors.qdrant._writing.statistics import Statistics
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.core._terms import TermArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.surprise._ensemble import Ensemble

if TYPE_CHECKING:  # which needs torch
    from surprise_rerank.rerank._surprise import SurpriseReranker

_FEWEST = 32  # documents of a sample, where each has many passages


class IndexCorpus(Corpus):
    """The documents of one index; of another version of it after `use`."""

    id_key = ID
    metadata_key = METADATA
    storage: Storage

    def __init__(self, storage: Storage, encoder: Encoder | None) -> None:
        self.given_encoder = encoder
        self.use(storage, KeptTerms(storage.engine, storage))

    def use(self, storage: Storage, terms: KeptTerms) -> None:
        """Read this version from now on, whose terms are known."""
        self.storage = self.files = storage
        self.points = storage.engine
        self.where = storage.where
        self.model, self.fingerprint = storage.manifest.model, storage.manifest.fingerprint
        self.terms = terms
        self._statistics: Statistics | None = None
        self._density: float | None = None

    def forget_density(self) -> None:
        """Count points again before the next search: documents came or went."""
        self._density = None

    @property
    def language(self) -> str:
        """The language of the documents' words."""
        return (self.bm25 or Bm25()).language

    @property
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that its documents carry moments of."""
        record = self.manifest.statistics
        return "" if record is None else record.version

    @property
    def manifest(self) -> Manifest:
        """The model and the options that the index was made with."""
        return self.storage.manifest

    @property
    def layout(self) -> VectorLayout:
        """The vectors, and how they are compared."""
        return VectorLayout.of(self.manifest)

    @property
    def default_system(self) -> str:
        """The best system that the index stores enough for: `auto` needs token vectors or words."""
        return "auto" if self.has_tokens or self.manifest.options.bm25 is not None else "cosine"

    def remedy(self, what: str) -> str:
        """Return what a user can do where there are no `words` or no `token vectors`."""
        setting = "bm25" if what == "words" else "tokens"
        return f"make the index again with 'surprise-rerank index --rebuild --set {setting}=yes'"

    @property
    def encoder(self) -> Encoder:
        """The model of its vectors.

        Raises:
            StoreError: if the index was opened without one.
        """
        if self.given_encoder is None:
            model = f"load_encoder({self.manifest.model!r})"
            raise StoreError(f"{self.storage.where} was opened without an encoder; open it with {model}")
        return self.given_encoder

    @property
    def pools(self) -> Pools:
        """Candidates from requests to the engine; what retrievers are made of."""
        if self._density is None:
            points = self.points.count() if self.manifest.options.passages else 0
            self._density = points / max(len(self), 1) if points else 1.0
        return Pools.of_index(self.storage, self._density)

    @property
    def words(self) -> Words | None:
        """BM25's sparse vectors; None where none are stored."""
        if self.manifest.options.bm25 is None:
            return None
        return Words(BM25, self._weighted, self._weights_of)

    def __len__(self) -> int:
        return self.points.count(self.manifest.options.firsts())

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]]:
        """The reader of documents by their ids; see `Corpus.documents`."""
        return self.pools.documents

    def ensemble(self, sample_size: int = 4096) -> Ensemble:
        """The ensemble of all stored documents (of their passages, where they are split), in one pass."""
        batches = (self.layout.dense_of(page)[0] for page in self.points.scroll((), (DENSE,)))
        return Ensemble.from_batches(batches, sample_size=sample_size, model=self.manifest.model)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a sample of the documents, fewer where they have many passages; see `token_sample`."""
        records = self.points.smallest(border.count("size", size), (self.manifest.options.key_field,))
        return tuple(self.pools.names(records).values())

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A uniform sample with these fields; see `Corpus.sample`."""
        border.choices("fields", fields, get_args(Field))
        most = max(_FEWEST, round(border.count("size", size) / self.pools.density))
        return self.fetch(self.sample_ids(size)[:most], fields, skip_missing=True)

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample: the smallest point ids, which are hashes."""
        engine, fields = self.points, (ID, self.manifest.options.key_field, *TOKEN_FIELDS)
        points = [record.id for record in engine.smallest(border.count("size", size), ())]
        names = self.pools.vectors_of(frozenset({"tokens"}))
        stored = {record.id: record for record in engine.retrieve(points, fields, names)}
        records = [stored[point] for point in points if point in stored]
        return tuple(map(self.pools.key, records)), self.layout.tokens_of(records)

    def surprise_reranker(self) -> SurpriseReranker:
        """Return the re-ranker of given documents by surprise, from stored moments where there are some."""
        return statistics.surprise_reranker(self.statistics(), self.ensemble)

    def term_statistics(self) -> TermStatistics:
        """Return what every term weighs over all documents, or passages; see `KeptTerms`.

        Raises:
            DataError: if the index stores no sparse vectors.
        """
        if self.manifest.options.bm25 is None:
            raise DataError("the index stores no sparse vectors; rebuild it with the setting bm25")
        return self.terms.statistics()

    def _weights_of(self, terms: TermArray) -> TermStatistics:
        """What some terms weigh; no others are read."""
        return self.terms.statistics(terms)

    def _weighted(self, question: str) -> SparseVector:
        """A question's words with their weights."""
        words = (self.bm25 or Bm25()).query(question)
        return self._weights_of(words.indices).weighted(words) if len(words.indices) else words

    @property
    def bm25(self) -> Bm25 | None:
        """The settings of words; another process may have found the language of an index that was empty."""
        return (self.manifest if self.manifest.language else self.storage.reload()).words

    def statistics(self) -> Statistics | None:
        """The statistics that the documents carry; None where no ensemble was set."""
        record = self.manifest.statistics
        if record is None:
            return None
        if self._statistics is None or self._statistics.record != record:
            self._statistics = statistics.load(self.storage, record, self.manifest.model)
        return self._statistics
