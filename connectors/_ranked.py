"""What ranks the documents of any collection: one that we write, or one that somebody else made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Unpack, cast, get_args

from surprise_rerank import _border as border
from surprise_rerank._answers import SearchOptions, SearchSettings
from surprise_rerank._candidates import Candidates, Field, Query, Unit
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever, LexicalIndex, with_words
from surprise_rerank.connectors.qdrant._retrievers import SurpriseMode, narrowable
from surprise_rerank.connectors.qdrant._schema import ALL
from surprise_rerank.connectors.qdrant._search.index_pools import IndexPools
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.qdrant._search.searched import SearchedCollection
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
from surprise_rerank.connectors.qdrant._storage.files import TenantFiles
from surprise_rerank.connectors.systems._backgrounds import (
    all_backgrounds,
    kept_background,
    measure_background,
    store_background,
)
from surprise_rerank.connectors.systems._building import build_system, possible_systems, with_scorers
from surprise_rerank.connectors.systems._inputs import BuiltSystem, SystemInputs
from surprise_rerank.connectors.systems._register import SYSTEMS, find_system
from surprise_rerank.core._process import PerProcess
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.thresholds._background import QuestionBackground
from surprise_rerank.thresholds._verdicts import AnswerChance

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
# Seconds to wait for another thread that makes a system: making one without a background takes less.
_PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class StoredCandidates:
    """What an index has of documents that are named."""

    index: SearchedCollection  # where vectors, tokens and texts come from
    words: LexicalIndex | None = None  # for BM25's scores of them, and its moments; none where None

    @property
    def pooling(self) -> float:
        """Tokens that are merged into one of their vectors, on average."""
        return self.index.layout.pooling

    def candidates(self, query: Query, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Return the documents that the index has of these, in this order, with BM25's scores, if any."""
        pool = self.index.fetch(ids, fields, skip_missing=True)
        return pool if self.words is None else with_words(pool, self.words, query.text)

    def of_tenant(self, tenant: str) -> StoredCandidates:
        """Return the stored candidates of one tenant's documents, which ids are of."""
        index = self.index.of_tenant(tenant)
        words = None if self.words is None else cast(LexicalIndex, narrowable(self.words).over(index))
        return StoredCandidates(index, words)


class RankedCollection(SearchedCollection):
    """A collection with its systems, and with their backgrounds of other questions."""

    def of_tenant(self, tenant: str) -> RankedCollection:
        """One tenant's documents, with the same methods; see `SearchedCollection.of_tenant`."""
        return IndexView(self, border.text("tenant", tenant))

    def by_unit(self, unit: Unit) -> RankedCollection:
        """Return the collection whose candidates are documents, or their passages where these are stored."""
        border.choice("unit", unit, get_args(Unit))
        has_passages = self.storage is not None and self.storage.manifest.options.passages is not None
        return IndexView(self, None, unit) if unit == "passage" and has_passages else self

    def pipeline(
        self,
        system: str | None = None,
        *,
        mode: SurpriseMode | None = None,
        exact: bool = False,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = NO_WEIGHTS,
        **settings: Unpack[SearchSettings],
    ) -> Pipeline:
        """Search by a system: a question in, a ranking out.

        The best system that there is enough for by default. `mode` is where `surprise` is computed:
        `formula`, `vector`. `exact` leaves the approximate index out. `scorers` are added by `auto` and
        `fusion`: a `CrossEncoder`, a function (question, texts) -> scores, or a `Scorer`; `weights` are
        factors by part. Other settings are those of `SearchOptions`.

        Raises:
            DataError: if what the system or a setting needs is not there, such as a background.
        """
        border.optional(border.text, "system", system)
        border.optional(border.choice, "mode", mode, get_args(SurpriseMode))
        border.flags(exact=exact)
        options = NO_OPTIONS.exactly() if exact else NO_OPTIONS
        built = build_system(system or self.default_system, self, options, mode)
        return self.pipeline_of(with_scorers(built, scorers, weights), **settings)

    def pipeline_of(self, built: BuiltSystem, **settings: Unpack[SearchSettings]) -> Pipeline:
        """The pipeline of a system that was built on this collection; see `pipeline`."""
        encodes = find_system(built.name).encodes or bool(built.needs & {"dense", "tokens"})
        # Words alone rank without a model, so that none needs to be loaded.
        encoder = self.encoder if encodes else cast(Encoder, self._encoder)
        options = SearchOptions(unit=self.pools.unit).changed(**settings)
        owner = (self if options.tenant is None else self.of_tenant(options.tenant)).by_unit(options.unit)
        background = kept_background(owner, built, options.min_percentile)
        return Pipeline(encoder, built.retriever, built.reranker, options, background, encodes)

    def text_reranker(
        self,
        system: str | None = None,
        *,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = NO_WEIGHTS,
        **settings: Unpack[SearchSettings],
    ) -> TextReranker:
        """Re-rank texts that were retrieved elsewhere; vectors of stored ones are fetched by their ids.

        The arguments are those of `pipeline`; the system must be one that ranks texts.

        Raises:
            DataError: if the system cannot rank given texts; as `pipeline`.
        """
        tenant = settings.pop("tenant", None)
        if tenant is not None:
            owner = self.of_tenant(tenant)
            return owner.text_reranker(system, scorers=scorers, weights=weights, **settings)
        name = border.optional(border.text, "system", system) or self.default_system
        chosen = find_system(name)
        if not chosen.ranks_texts:
            able = ", ".join(other.name for other in SYSTEMS.values() if other.ranks_texts)
            raise DataError(f"the system {name!r} ranks inside Qdrant; given texts take one of {able}")
        built = build_system(name, self, of_texts=True)
        options = SearchOptions().changed(**settings)
        background = kept_background(self, built, options.min_percentile)
        ranking = with_scorers(built, scorers, weights)
        if ranking.reranker is None:
            raise DataError(
                f"the system {name!r} has no re-ranker, so it cannot rank given texts; choose another"
            )
        words: LexicalIndex | None = None
        if isinstance(ranking.retriever, HybridRetriever):
            words = ranking.retriever.lexical
        return TextReranker(
            self.encoder, ranking.reranker, StoredCandidates(self, words), background, options
        )

    def _status_of(self, points: int, **more: Any) -> CollectionStatus:
        """Return the report on so many points, with what an index or an attached collection adds to it."""
        lacks = SystemInputs(index=self).lacks
        ranks_by = f"{self.default_system} ({lacks})" if lacks else self.default_system
        return CollectionStatus(
            where=self.where,
            engine=self.engine,
            documents=len(self),
            points=points,
            ranks_by=ranks_by,
            **more,
        )

    def backgrounds(self) -> dict[str, QuestionBackground]:
        """System -> its background, of those that have one; a DataError if one is damaged."""
        return all_backgrounds(self)

    def measure_background(
        self,
        system: str | None = None,
        questions: Sequence[str] | None = None,
        *,
        depth: int = 100,
        origin: str = "",
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """Measure what other questions' best candidates score, and keep it for percentiles.

        The questions have nothing to do with the corpus: logged ones, or titles of another corpus;
        `varied_questions` where None. The background is of a system, or the default of `pipeline`, over pools
        of a depth, and in place of an earlier one. Readers are told the origin, and `on_progress` the number
        of every part.

        Raises:
            DataError: if there are too few questions, or the system lacks what it needs.
        """
        name = border.optional(border.text, "system", system) or self.default_system
        border.text("origin", origin)
        border.optional(border.function, "on_progress", on_progress)
        return measure_background(self, name, questions, depth=depth, origin=origin, on_progress=on_progress)

    def calibrate_chance(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        system: str | None = None,
    ) -> AnswerChance:
        """Learn from judged questions how often the first ten documents contain an answer, and keep it.

        Questions and qrels are as for `Pipeline.fit`; the system, or the default, must have a background.

        Raises:
            DataError: if there is no background, or there are too few questions; as `Pipeline.calibrated`.
        """
        questions, qrels = border.judgements(questions, qrels)
        name = border.optional(border.text, "system", system) or self.default_system
        background = (
            self.pipeline(name, tenant=self.every_tenant).calibrated(questions, qrels).current_background()
        )
        assert background is not None
        assert background.chance is not None
        store_background(self, name, background)
        return background.chance


def _shared(name: str) -> Any:
    """Return a property of a view that is what the index has that it is of."""
    return property(attrgetter(f"_index.{name}"))


class IndexView(RankedCollection):
    """An index of which a search finds one tenant's documents alone, or passages in place of documents.

    Documents have the ids that are the tenant's; those of the tenant `ALL` have the tenant before them. What
    scores are measured against is the whole index: its ensembles, samples and statistics of words, so that
    scores are those of a pipeline of the whole index that searches for the tenant. Backgrounds and fitted
    weights are the tenant's, where it has some, else the index's.

    Raises:
        DataError: if a tenant is named, and the collection is no index with tenants.
    """

    def __init__(self, index: RankedCollection, tenant: str | None, unit: Unit = "document") -> None:
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

    storage, engine, model, fingerprint = map(_shared, ("storage", "engine", "model", "fingerprint"))
    id_key, metadata_key, layout = map(_shared, ("id_key", "metadata_key", "layout"))
    words, remedy, corpus = map(_shared, ("words", "remedy", "corpus"))
    encoder, language, default_system = map(_shared, ("encoder", "language", "default_system"))
    sample_ids, sample, token_sample = map(_shared, ("sample_ids", "sample", "token_sample"))
    statistics, ensemble_version = map(_shared, ("statistics", "ensemble_version"))
    surprise_reranker, _encoder = map(_shared, ("surprise_reranker", "_encoder"))
    changes, count_changes, last_changes = map(_shared, ("changes", "count_changes", "last_changes"))

    @property
    def pools(self) -> IndexPools:
        """Candidates of the tenant's documents, or of their passages; what retrievers are made of."""
        return IndexPools(self.storage, self._index.pools.density, self._whose, self.unit)

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]]:
        """The reader of documents by their ids; see `SearchedCollection.documents`."""
        return self.pools.documents

    def __len__(self) -> int:
        return len(self._index) if self._whose is None else self.storage.engine.count(self.pools.firsts())

    def close(self) -> None:
        """Nothing: whoever opened the index closes it."""

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
        pools, layout = self.pools, self.pools.payloads
        records = self.storage.engine.smallest(size, layout.document_fields(), pools.firsts())
        return tuple(layout.document(record.id, record.payload) for record in records)

    def of_tenant(self, tenant: str) -> RankedCollection:
        """Return a tenant's part of what is of all; a DataError for what is of another tenant."""
        if tenant == self._whose:
            return self
        if self._whose not in (None, ALL):
            raise DataError(f"{self.where}: another tenant, {tenant!r}, is asked for; ask the whole index")
        return IndexView(self._index, border.text("tenant", tenant), self.unit)

    def by_unit(self, unit: Unit) -> RankedCollection:
        """Return the view whose candidates are documents, or their passages where these are stored."""
        index = self._index.by_unit(unit)
        return index if self._whose is None else IndexView(self._index, self._whose, index.pools.unit)


class RankedPipelines(Mapping[str, Pipeline]):
    """The pipelines of a collection, by the name of their system: those that it has enough for.

    The first is the one that was asked for, or the best one. Another system is made when it is asked for the
    first time. A thread that asks for a system meanwhile gets a TimeoutError at once.
    """

    def __init__(
        self, index: RankedCollection, system: str | None = None, **settings: Unpack[SearchSettings]
    ) -> None:
        tenant = settings.pop("tenant", None)
        self.index = index = index if tenant is None else index.of_tenant(tenant)
        self.first = system or index.default_system
        pipeline = index.pipeline(self.first, **settings)
        self._pipelines, self._lock = {self.first: pipeline}, PerProcess(threading.Lock)
        self._names = tuple(dict.fromkeys((self.first, *possible_systems(index))))

    def __getitem__(self, name: str) -> Pipeline:
        """The pipeline of a system; a KeyError without enough for it, a TimeoutError while one is made."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self._pipelines:
            # Whoever would wait for seconds holds a thread that others could be served by.
            lock = self._lock.get()
            if not lock.acquire(timeout=_PATIENCE):
                raise TimeoutError(name)
            try:
                if name not in self._pipelines:
                    # The threshold is of the first alone: others may have no background.
                    options = replace(self._pipelines[self.first].options, min_percentile=None)
                    self._pipelines[name] = replace(self.index.pipeline(name), options=options)
            finally:
                lock.release()
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # the mapping's own would make the pipeline

    @property
    def opened(self) -> Mapping[str, Pipeline]:
        """The pipelines that were asked for so far, by system."""
        return dict(self._pipelines)

    def summaries(self) -> dict[str, str]:
        """What each system does, in a line."""
        return {name: find_system(name).summary for name in self._names}
