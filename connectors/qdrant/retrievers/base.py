"""What a retriever did for a query, in words and numbers; and retrievers among a filter's documents."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar, cast

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.connectors.qdrant.engines.steps import Steps, together
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions, Stage
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.core.workers import awaitable
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline

T = TypeVar("T")


class SearchedIndex(Protocol):
    """Documents with dense vectors in Qdrant: an index of ours, or a collection that somebody else made."""

    @property
    def engine(self) -> EngineKind:
        """Which engine it has: `edge`, `local` or `server`."""
        ...

    @property
    def id_key(self) -> str:
        """The key of a document's id in the payload, for filters; empty where the point's own id is it."""
        ...

    @property
    def metadata_key(self) -> str:
        """The key of the metadata in the payload, for filters; empty where they are the payload."""
        ...

    @property
    def token_form(self) -> TokenForm:
        """The form of the token vectors that are fetched."""
        ...

    def ask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """What a reader of the points returns."""
        ...

    async def aask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """`ask` for an event loop."""
        ...

    def __len__(self) -> int: ...

    def search(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """The documents nearest to a query."""
        ...

    def searching(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Steps[Candidates]:
        """What `search` asks."""
        ...

    def fetch(
        self,
        ids: Sequence[str],
        fields: frozenset[Field],
        *,
        skip_missing: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """Documents by id, in this order.

        Raises:
            DataError: if one is not there, and missing ones are not to be skipped.
        """
        ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a retriever did for a query.

    Attributes:
        steps: one line each, in their order: the engine, what it ranks by, and over how many points.
        seconds: how long it took, fetching included.
        ranking: the documents in order, with what each stage gave them.
    """

    steps: tuple[str, ...]
    seconds: float
    ranking: Ranking


class ExplainingRetriever(ABC):
    """A retriever from an index that can explain what it does; a dataclass.

    Attributes:
        index: where the documents are.
        options: filter and search parameters.
    """

    __slots__ = ()

    index: SearchedIndex
    options: SearchOptions

    @abstractmethod
    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""

    @abstractmethod
    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""

    aretrieve = awaitable(retrieve)

    def retrieving(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset()
    ) -> Steps[Candidates]:
        """What `retrieve` asks the index, as a reader: one that does not say computes it in one step."""
        yield from ()
        return self.retrieve(query, depth, fields)

    def among(self, condition: models.Filter) -> Self:
        """The same over the documents that a filter lets through, beside its own filter."""
        return cast(Self, replace(cast(Any, self), options=self.options.among(condition)))

    def explain(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset({"documents"})
    ) -> Explanation:
        """Retrieve, and report what was done."""
        begun = time.perf_counter()
        pool = self.retrieve(query, depth, fields)
        seconds = time.perf_counter() - begun
        scores = next(iter(pool.scores.values()))
        return Explanation(tuple(self.steps(query, depth)), seconds, Ranking.order(pool, scores, pool.scores))


class ReadingRetriever(ExplainingRetriever):
    """A retriever that tells what it asks its index, so that event loops need no thread for each question."""

    __slots__ = ()

    @abstractmethod
    def retrieving(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset()
    ) -> Steps[Candidates]:
        """The requests of `retrieve`, and the pool that they give; see `engines/steps.py`."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents, with what the re-ranker needs."""
        return self.index.ask(self.retrieving(query, depth, fields), self.options)

    def retrieve_many(
        self, queries: Sequence[Query], depth: int, fields: frozenset[Field] = frozenset()
    ) -> list[Candidates]:
        """The pools of several queries, in as many requests as the longest of them takes."""
        pools = together(*(self.retrieving(query, depth, fields) for query in queries))
        return self.index.ask(pools, self.options)

    async def aretrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """`retrieve` for an event loop."""
        return await self.index.aask(self.retrieving(query, depth, fields), self.options)


def filterable(pipeline: Pipeline) -> ExplainingRetriever:
    """A pipeline's retriever, which takes filters.

    Raises:
        DataError: if it is none from an index or an attached collection.
    """
    if isinstance(pipeline.retriever, ExplainingRetriever):
        return pipeline.retriever
    raise DataError(
        f"filters go to a retriever of an index, not to a {type(pipeline.retriever).__name__}; leave them out"
    )


def filtered(pipeline: Pipeline, condition: models.Filter | None) -> Pipeline:
    """The same over the documents that a filter of Qdrant lets through; all of them where None.

    Raises:
        DataError: if the pipeline has no retriever that takes filters, or it is no filter of Qdrant.
    """
    if condition is None:
        return pipeline
    return replace(pipeline, retriever=filterable(pipeline).among(condition))


def in_words(index: SearchedIndex, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
    """The stages in words."""
    first = f"all {len(index)} documents"
    if options.filter is not None:
        first += " that the filter lets through"
    if options.tenant is not None:
        first += f" of tenant {options.tenant!r}"
    sources = [first, *(f"the {stage.limit} best of these" for stage in stages[:-1])]
    return [
        f"{index.engine}: {stage.name} over {source}" for stage, source in zip(stages, sources, strict=True)
    ]
