"""What an index and an attached collection have in common: systems, pipelines and backgrounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType
from typing import Any, Self, Unpack, cast, get_args

from surprise_rerank import _border as border
from surprise_rerank._answers import SearchOptions, SearchSettings
from surprise_rerank._candidates import Candidates, Field, Query, Ranking, Unit
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors.qdrant._engines.placement import Placement
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever, LexicalIndex, with_words
from surprise_rerank.connectors.qdrant._retrievers import SurpriseMode, narrowable
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
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

    corpus: Corpus  # where vectors, tokens and texts come from
    words: LexicalIndex | None = None  # for BM25's scores of them, and its moments; none where None

    @property
    def pooling(self) -> float:
        """Tokens that are merged into one of their vectors, on average."""
        return self.corpus.layout.pooling

    def candidates(self, query: Query, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Return the documents that the index has of these, in this order, with BM25's scores, if any."""
        pool = self.corpus.fetch(ids, fields, skip_missing=True)
        return pool if self.words is None else with_words(pool, self.words, query.text)

    def of_tenant(self, tenant: str) -> StoredCandidates:
        """Return the stored candidates of one tenant's documents, which ids are of."""
        corpus = self.corpus.of_tenant(tenant)
        words = None if self.words is None else cast(LexicalIndex, narrowable(self.words).over(corpus))
        return StoredCandidates(corpus, words)


class SearchableCollection:
    """Documents in Qdrant with their systems, and with backgrounds of other questions; a context manager.

    Attributes:
        corpus: the documents as retrievers read them; `build_system` and retrievers are made of it.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.where}>"

    @property
    def where(self) -> str:
        """The place, for messages."""
        return self.corpus.where

    @property
    def encoder(self) -> Encoder:
        """The model of questions; an error if the collection was opened without one."""
        return self.corpus.encoder

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None where they are on this machine."""
        return self.corpus.points.placement()

    def close(self) -> None:
        """Let go of files and connections; a tenant's part of an index has none of its own."""

    def of_tenant(self, tenant: str) -> SearchableCollection:
        """One tenant's documents, searched and named by their ids alone; '' for those without a tenant.

        Those of `ALL`, of all tenants, are named as TENANT/ID.

        Raises:
            DataError: if it is no index with tenants, or is another tenant's already.
        """
        return SearchableCollection(self.corpus.of_tenant(tenant))

    def by_unit(self, unit: Unit) -> SearchableCollection:
        """Return the collection whose candidates are documents, or their passages where these are stored."""
        return SearchableCollection(self.corpus.by_unit(unit))

    def fetch(
        self,
        ids: Iterable[str],
        fields: Collection[Field],
        *,
        skip_missing: bool = False,
        tenant: str | None = None,
    ) -> Candidates:
        """Documents by id with these fields, in this order, each once; all passages of each.

        An id is of its tenant, where the index has tenants; without one it is as a search of all shows it.

        Raises:
            NotStoredError: if one is not there, and missing ones are not to be skipped.
        """
        wanted = border.choices("fields", fields, get_args(Field))
        border.flags(skip_missing=skip_missing)
        corpus = self.corpus if tenant is None else self.corpus.of_tenant(tenant)
        return corpus.fetch(border.texts("ids", ids), wanted, skip_missing=skip_missing)

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
        built = build_system(system or self.corpus.default_system, self.corpus, options, mode)
        return pipeline_of(self.corpus, with_scorers(built, scorers, weights), **settings)

    def search(self, question: str, top_k: int = 10, **settings: Unpack[SearchSettings]) -> Ranking:
        """Rank the documents for one question by the default system; keep a `pipeline` for many.

        The settings are those of `SearchOptions`.
        """
        return self.pipeline(**settings).search(question, top_k)

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
        corpus = self.corpus
        name = border.optional(border.text, "system", system) or corpus.default_system
        chosen = find_system(name)
        if not chosen.ranks_texts:
            able = ", ".join(other.name for other in SYSTEMS.values() if other.ranks_texts)
            raise DataError(f"the system {name!r} ranks inside Qdrant; given texts take one of {able}")
        built = build_system(name, corpus, of_texts=True)
        options = SearchOptions().changed(**settings)
        background = kept_background(corpus, built, options.min_percentile)
        ranking = with_scorers(built, scorers, weights)
        if ranking.reranker is None:
            raise DataError(
                f"the system {name!r} has no re-ranker, so it cannot rank given texts; choose another"
            )
        words: LexicalIndex | None = None
        if isinstance(ranking.retriever, HybridRetriever):
            words = ranking.retriever.lexical
        return TextReranker(
            self.encoder, ranking.reranker, StoredCandidates(corpus, words), background, options
        )

    def backgrounds(self) -> dict[str, QuestionBackground]:
        """System -> its background, of those that have one; a DataError if one is damaged."""
        return all_backgrounds(self.corpus)

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
        name = border.optional(border.text, "system", system) or self.corpus.default_system
        border.text("origin", origin)
        border.optional(border.function, "on_progress", on_progress)
        return measure_background(
            self.corpus, name, questions, depth=depth, origin=origin, on_progress=on_progress
        )

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
        name = border.optional(border.text, "system", system) or self.corpus.default_system
        background = (
            self.pipeline(name, tenant=self.corpus.every_tenant)
            .calibrated(questions, qrels)
            .current_background()
        )
        assert background is not None
        assert background.chance is not None
        store_background(self.corpus, name, background)
        return background.chance


def pipeline_of(corpus: Corpus, built: BuiltSystem, **settings: Unpack[SearchSettings]) -> Pipeline:
    """The pipeline of a system that was built on a corpus; see `SearchableCollection.pipeline`."""
    encodes = find_system(built.name).encodes or bool(built.needs & {"dense", "tokens"})
    # Words alone rank without a model, so that none needs to be loaded.
    encoder = corpus.encoder if encodes else cast(Encoder, corpus.given_encoder)
    options = SearchOptions(unit=corpus.pools.unit).changed(**settings)
    owner = (corpus if options.tenant is None else corpus.of_tenant(options.tenant)).by_unit(options.unit)
    background = kept_background(owner, built, options.min_percentile)
    return Pipeline(encoder, built.retriever, built.reranker, options, background, encodes)


def status_of(corpus: Corpus, **more: Any) -> CollectionStatus:
    """Return the report on a corpus, with what an index or an attached collection adds to it."""
    lacks = SystemInputs(corpus=corpus).lacks
    ranks_by = f"{corpus.default_system} ({lacks})" if lacks else corpus.default_system
    return CollectionStatus(
        where=corpus.where,
        engine=corpus.engine,
        documents=len(corpus),
        points=corpus.points.count(),
        ranks_by=ranks_by,
        **more,
    )


class CollectionPipelines(Mapping[str, Pipeline]):
    """The pipelines of a collection, by the name of their system: those that it has enough for.

    The first is the one that was asked for, or the best one. Another system is made when it is asked for the
    first time. A thread that asks for a system meanwhile gets a TimeoutError at once.
    """

    def __init__(
        self, collection: SearchableCollection, system: str | None = None, **settings: Unpack[SearchSettings]
    ) -> None:
        tenant = settings.pop("tenant", None)
        self.whole = collection
        self.collection = collection if tenant is None else collection.of_tenant(tenant)
        self.first = system or self.collection.corpus.default_system
        pipeline = self.collection.pipeline(self.first, **settings)
        self._pipelines, self._lock = {self.first: pipeline}, PerProcess(threading.Lock)
        self._names = tuple(dict.fromkeys((self.first, *possible_systems(self.collection.corpus))))

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
                    self._pipelines[name] = replace(self.collection.pipeline(name), options=options)
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
