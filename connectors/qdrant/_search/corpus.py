"""The documents that questions are asked of: an index of ours, or somebody else's collection."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Unit
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors.qdrant._engines import Engine
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._location import EngineKind
from surprise_rerank.connectors.qdrant._schema import ALL
from surprise_rerank.connectors.qdrant._search.finding import Search, best_candidates
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._search.queries import (
    NO_OPTIONS,
    InclusionQuestion,
    SearchOptions,
    having_ids,
)
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._storage.files import Files, TenantFiles
from surprise_rerank.connectors.qdrant._writing.statistics import Statistics
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.core._process import NeverCopied, PerProcess
from surprise_rerank.core._terms import TermArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.rerank._grouping import TextsAround
from surprise_rerank.thresholds._background import QuestionBackground

if TYPE_CHECKING:  # which needs torch
    from surprise_rerank.rerank._surprise import SurpriseReranker

_CHANGES = "changes.json"
_counting = PerProcess(threading.Lock)


@dataclass(frozen=True, slots=True)
class Words:
    """The sparse vectors of a collection: their name, what makes a question's, and statistics of its terms.

    `idf` says whether Qdrant multiplies with the IDF, `kind` what they are compared by, in words, and
    `counts` whether terms are counted: learned ones are weighted already.
    """

    vector: str
    embed: Callable[[str], SparseVector]
    statistics: Callable[[TermArray], TermStatistics]  # of these terms
    idf: bool = False
    kind: str = "BM25"
    counts: bool = True


class Changes(NamedTuple):
    """What happened to a collection since it was made, counted by whoever writes."""

    documents: int = 0  # that were added, replaced or removed
    measured: int = 0  # backgrounds that were measured or deleted


class Corpus(NeverCopied, ABC):
    """Documents with vectors in Qdrant, as retrievers and systems read them."""

    points: Engine  # the documents' points, or those of their passages
    where: str  # the place, for messages
    model: str  # the name of the model of the dense vectors; empty where it is not known
    fingerprint: str  # what tells its weights apart; empty where it is not known
    id_key: str  # of a document's id in the payload, for filters; empty where the point's own id is it
    metadata_key: str  # of the metadata, for filters; empty where they are the payload
    files: Files  # what is kept beside the points: backgrounds, fitted weights
    storage: Storage | None = None  # of an index of ours; None of a collection that somebody else made
    tenant: str | None = None  # whose documents they are, of one tenant's in an index
    # As this process last saw them; None before that.
    last_changes: Changes | None = None
    _uncounted: int = 0  # documents that were changed while the count could not be stored
    given_encoder: Encoder | None = None  # the model of questions that it was opened with
    owner: Any = None  # the index or collection whose `corpus` it is; it opens the corpus again from a pickle

    def __reduce__(self) -> tuple[Any, ...]:
        return attrgetter("corpus"), (self.owner,)

    @property
    def engine(self) -> EngineKind:
        """Which engine the points are in."""
        return self.points.kind

    @property
    def whole(self) -> Corpus:
        """What scores are measured against: itself, or the index that a tenant's documents are a part of."""
        return self

    def of_tenant(self, tenant: str) -> Corpus:
        """One tenant's documents, searched and named by their ids alone; '' for those without a tenant.

        Those of `ALL`, of all tenants, are named as TENANT/ID.

        Raises:
            DataError: if it is no index with tenants, or is another tenant's already.
        """
        return CorpusView(self, border.text("tenant", tenant))

    def by_unit(self, unit: Unit) -> Corpus:
        """Return the corpus whose candidates are documents, or their passages where these are stored."""
        border.choice("unit", unit, get_args(Unit))
        has_passages = self.storage is not None and self.storage.manifest.options.passages is not None
        return CorpusView(self, None, unit) if unit == "passage" and has_passages else self

    @property
    def every_tenant(self) -> str | None:
        """What `tenant=` is for the documents of all tenants: `ALL`, or None where there are no others."""
        has_tenants = self.storage is not None and self.storage.manifest.options.tenant is not None
        return ALL if has_tenants and self.tenant is None else None

    @property
    @abstractmethod
    def layout(self) -> VectorLayout:
        """The vectors of documents that a question's can be compared with, and how they are compared."""

    @property
    def has_tokens(self) -> bool:
        """Whether there are token vectors."""
        return self.layout.tokens is not None

    @property
    @abstractmethod
    def default_system(self) -> str:
        """The best system that there is enough for."""

    @abstractmethod
    def remedy(self, what: str) -> str:
        """Return what a user can do where there are no `words` or no `token vectors`."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """The model of questions.

        Raises:
            StoreError: if it was opened without one.
        """

    @property
    @abstractmethod
    def language(self) -> str:
        """The language of the documents' words."""

    @property
    @abstractmethod
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that surprise is measured against; empty without one."""

    @property
    @abstractmethod
    def pools(self) -> Pools:
        """Candidates from requests to the engine; what retrievers are made of."""

    @property
    @abstractmethod
    def words(self) -> Words | None:
        """Its sparse vectors; None without them, or where it is not known how a question becomes one."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a uniform sample of so many documents, the same in every run; all where there are fewer."""

    @abstractmethod
    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """Return a sample of so many documents with the fields; fewer where they have many passages."""

    def sample_documents(self, size: int) -> tuple[Document, ...]:
        """A uniform sample of so many documents, the same in every run; see `sample`."""
        sampled = self.sample(size, frozenset({"documents"}))
        return tuple(dict(zip(sampled.ids, sampled.documents or (), strict=True)).values())

    @abstractmethod
    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of documents, or passages; all where there are fewer.

        Raises:
            DataError: if none are stored.
        """

    @abstractmethod
    def surprise_reranker(self) -> SurpriseReranker:
        """What orders given documents by surprise over the ensemble, or else over all documents."""

    def changes(self) -> Changes:
        """What happened to it, by this process or another one."""
        content = self.files.read_file(_CHANGES)
        self.last_changes = Changes() if content is None else Changes(*json.loads(content))
        return self.last_changes

    def count_changes(self, documents: int = 0, measured: int = 0) -> None:
        """Remember that so many documents were changed, or backgrounds measured."""
        with _counting.get():  # a background is measured in one thread, while documents come in another
            self._uncounted += documents
            before = self.changes()
            after = Changes(before.documents + self._uncounted, before.measured + measured)
            if after != before:
                self.files.write_file(_CHANGES, json.dumps(after).encode())
                self.last_changes = after
            self._uncounted = 0

    @contextmanager
    def counting_changes(self, changed: Callable[[], int]) -> Iterator[None]:
        """Count the documents that the block changes, also if it fails: what it stored stays."""
        try:
            yield
        except StoreError:  # the next change stores it: this one has waited long enough
            self._uncounted += changed()
            raise
        except BaseException:
            with suppress(StoreError):
                self.count_changes(changed())
            raise
        self.count_changes(changed())

    def changed_since(self, background: QuestionBackground) -> int:
        """How many documents came, changed or went since a background was measured.

        What others wrote, or a killed process did not count, shows in the number of documents alone.
        """
        counted = self.changes().documents - background.changes
        return max(counted, abs(len(self) - background.documents))

    def statistics(self) -> Statistics | None:
        """The statistics that documents carry; None where they carry none."""
        return None

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by words must know of these candidates."""
        return ()

    def with_inclusion(self, pool: Candidates, question: InclusionQuestion) -> Candidates:
        """Candidates of this collection with inclusion of a question's tokens, which Qdrant computes."""
        pools = self.pools
        pool, points = pools.still_stored(pool)
        wanted = having_ids(points)
        asks = {"inclusion": (lambda limit: pools.inclusion(question, wanted, limit), len(points))}
        records = pools.every(asks)["inclusion"]
        return pools.included(pool, points, question, records)

    def search(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """The documents nearest to a query with its dense vector, as the vectors are compared.

        Fields are `dense`, `tokens`, `documents`. An exact search leaves the approximate index out.
        """
        border.instance(
            "query", query, Query, "search by words with a pipeline: index.pipeline().search(...)"
        )
        pools, chosen = self.pools, options.exactly() if exact else options
        dense = pools.near_vectors(query)
        return best_candidates(pools, Search(lambda limit: [pools.near(dense, limit)], depth, fields, chosen))

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]] | None:
        """A function that reads documents by id; None where the texts of the pool are enough."""
        return None

    def texts_around(self, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
        """The texts of so many chunks before and after each document, by its id, where they are known."""
        return {}

    def fetch(
        self, ids: Iterable[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id; see `SearchableCollection.fetch`."""
        return self.pools.fetch(list(dict.fromkeys(ids)), fields, skip_missing=skip_missing)


def _shared(name: str) -> Any:
    """Return a property of a view whose value is that of the index behind it."""
    return property(attrgetter(f"_index.{name}"))


class CorpusView(Corpus):
    """An index of which a search finds one tenant's documents alone, or passages in place of documents.

    Documents have the ids that are the tenant's; those of the tenant `ALL` have the tenant before them. What
    scores are measured against is the whole index: its ensembles, samples and statistics of words, so that
    scores are those of a pipeline of the whole index that searches for the tenant. Backgrounds and fitted
    weights are the tenant's, where it has some, else the index's.

    Raises:
        DataError: if a tenant is named, and the collection is no index with tenants.
    """

    def __init__(self, index: Corpus, tenant: str | None, unit: Unit = "document") -> None:
        if tenant is not None:
            if index.storage is None:
                raise DataError(
                    f"tenant={tenant!r} is for an index of surprise-rerank, and {index.where} is none; leave "
                    "it away, or filter"
                )
            index.storage.manifest.options.tenant_filter(tenant)
        self._index, self._whose, self.unit = index, tenant, unit
        self.tenant = None if tenant == ALL else tenant
        self.where = index.where if self.tenant is None else f"{index.where}, tenant {tenant!r}"
        self.files = TenantFiles(partial(getattr, index, "files"), ALL if tenant is None else tenant)

    def __reduce__(self) -> tuple[Any, ...]:
        return CorpusView, (self._index, self._whose, self.unit)

    storage, points = map(_shared, ("storage", "points"))
    model, fingerprint = map(_shared, ("model", "fingerprint"))
    id_key, metadata_key, layout = map(_shared, ("id_key", "metadata_key", "layout"))
    words, remedy, whole = map(_shared, ("words", "remedy", "whole"))
    encoder, language, default_system = map(_shared, ("encoder", "language", "default_system"))
    sample_ids, sample, token_sample = map(_shared, ("sample_ids", "sample", "token_sample"))
    statistics, ensemble_version = map(_shared, ("statistics", "ensemble_version"))
    surprise_reranker, given_encoder = map(_shared, ("surprise_reranker", "given_encoder"))
    changes, count_changes, last_changes = map(_shared, ("changes", "count_changes", "last_changes"))

    @property
    def pools(self) -> Pools:
        """Candidates of the tenant's documents, or of their passages; what retrievers are made of."""
        return Pools.of_index(self.storage, self._index.pools.density, self._whose, self.unit)

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]]:
        """The reader of documents by their ids; see `Corpus.documents`."""
        return self.pools.documents

    def __len__(self) -> int:
        if self._whose is None:
            return len(self._index)
        documents: int = self.points.count(self.storage.manifest.options.firsts(self._whose))
        return documents

    def changed_since(self, background: QuestionBackground) -> int:
        """How many documents came, changed or went since a background was measured.

        One that was measured over the whole index has its number of documents, and its changes count. Of the
        tenant's, which has about the tenant's number, only the difference in numbers is known.
        """
        changed = self._index.changed_since(background)
        return changed if self.tenant is None else min(changed, abs(len(self) - background.documents))

    def sample_documents(self, size: int) -> tuple[Document, ...]:
        """A uniform sample of so many of the tenant's documents, the same in every run."""
        if self._whose is None:
            return self._index.sample_documents(size)
        options = self.storage.manifest.options
        layout = options.payloads
        records = self.points.smallest(size, layout.document_fields(), options.firsts(self._whose))
        return tuple(layout.document(record.id, record.payload) for record in records)

    def of_tenant(self, tenant: str) -> Corpus:
        """Return a tenant's part of what is of all; a DataError for what is of another tenant."""
        if tenant == self._whose:
            return self
        if self._whose not in (None, ALL):
            raise DataError(f"{self.where}: another tenant, {tenant!r}, is asked for; ask the whole index")
        return CorpusView(self._index, border.text("tenant", tenant), self.unit)

    def by_unit(self, unit: Unit) -> Corpus:
        """Return the view whose candidates are documents, or their passages where these are stored."""
        index = self._index.by_unit(unit)
        return index if self._whose is None else CorpusView(self._index, self._whose, index.pools.unit)
