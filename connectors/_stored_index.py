"""An index of ours as it is read: its vectors, words, samples, statistics and status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, get_args

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors._ranked import RankedCollection
from surprise_rerank.connectors.qdrant._engines.placement import Placement
from surprise_rerank.connectors.qdrant._lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._schema import (
    BM25,
    DENSE,
    ID,
    METADATA,
)
from surprise_rerank.connectors.qdrant._search.index_pools import IndexPools
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.searched import Words
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
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


class StoredIndex(RankedCollection):
    """What `DocumentIndex` reads and does not change."""

    id_key = ID
    metadata_key = METADATA
    storage: Storage

    def __init__(self, storage: Storage, encoder: Encoder | None) -> None:
        self._encoder, self.is_closed = encoder, False
        self._use(storage, KeptTerms(storage.engine, storage), None)

    def _use(self, storage: Storage, terms: KeptTerms, statistics: Statistics | None) -> None:
        """Read this version from now on, whose terms and statistics are known."""
        self.storage = self.files = storage
        self.engine, self.where = storage.engine.kind, storage.where
        self.model, self.fingerprint = storage.manifest.model, storage.manifest.fingerprint
        self._terms, self._statistics = terms, statistics
        self._density: float | None = None

    @property
    def language(self) -> str:
        """The language of the documents' words."""
        return (self._words or Bm25()).language

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
        if self._encoder is None:
            model = f"load_encoder({self.manifest.model!r})"
            raise StoreError(f"{self.storage.where} was opened without an encoder; open it with {model}")
        return self._encoder

    @property
    def pools(self) -> IndexPools:
        """Candidates from requests to the engine; what retrievers are made of."""
        if self._density is None:
            points = self.storage.engine.count() if self.manifest.options.passages else 0
            self._density = points / max(len(self), 1) if points else 1.0
        return IndexPools(self.storage, self._density)

    @property
    def words(self) -> Words | None:
        """BM25's sparse vectors; None where none are stored."""
        if self.manifest.options.bm25 is None:
            return None
        return Words(BM25, self._weighted, self._statistics_of)

    def __len__(self) -> int:
        return self.storage.engine.count(IndexPools(self.storage, 1.0).firsts())

    def ids(
        self,
        *,
        filter: models.Filter | None = None,  # noqa: A002 - as searches have it
        tenant: str | None = None,
    ) -> Iterator[str]:
        """Return the ids of all documents, or of those that a filter lets through, always in the same order.

        A DataError if the index has tenants and none is given; those of `ALL` tenants are TENANT/ID.
        """
        pools, fields = IndexPools(self.storage, 1.0, tenant), (ID, self.manifest.options.key_field)
        return chain.from_iterable(pools.names([r]).values() for r in pools.first_points(fields, filter))

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]]:
        """The reader of documents by their ids; see `SearchedCollection.documents`."""
        return self.pools.documents

    def ensemble(self, sample_size: int = 4096) -> Ensemble:
        """The ensemble of all stored documents (of their passages, where they are split), in one pass."""
        batches = (self.layout.dense_of(page)[0] for page in self.storage.engine.scroll((), (DENSE,)))
        return Ensemble.from_batches(batches, sample_size=sample_size, model=self.manifest.model)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a sample of the documents, fewer where they have many passages; see `token_sample`."""
        records = self.storage.engine.smallest(border.count("size", size), (self.manifest.options.key_field,))
        return tuple(self.pools.names(records).values())

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A uniform sample with these fields; see `SearchedCollection.sample`."""
        border.choices("fields", fields, get_args(Field))
        most = max(_FEWEST, round(border.count("size", size) / self.pools.density))
        return self.fetch(self.sample_ids(size)[:most], fields, skip_missing=True)

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample: the smallest point ids, which are hashes."""
        engine, fields = self.storage.engine, (ID, self.manifest.options.key_field, *TOKEN_FIELDS)
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
        return self._terms.statistics()

    def _statistics_of(self, terms: TermArray) -> TermStatistics:
        """What some terms weigh; no others are read."""
        return self._terms.statistics(terms)

    def _weighted(self, question: str) -> SparseVector:
        """A question's words with their weights."""
        words = (self._words or Bm25()).query(question)
        return self._statistics_of(words.indices).weighted(words) if len(words.indices) else words

    @property
    def _words(self) -> Bm25 | None:
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

    def status(self) -> CollectionStatus:
        """Report what the index holds, and how far its statistics are behind its ensemble."""
        latest = self.manifest.latest
        behind = 0 if latest is None else statistics.documents_behind(self.storage, latest)
        return self._status_of(self.storage.engine.count(), manifest=self.manifest, behind=behind)

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None where the index is on this machine."""
        return self.storage.engine.placement()

    def close(self) -> None:
        """Write what is pending; close files and connections, and release locks."""
        self.is_closed = True
        self.storage.close()
