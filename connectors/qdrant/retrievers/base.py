"""What a retriever did for a query, in words and numbers; and retrievers among a filter's documents."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions, Stage
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline


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
    index: Searched
    options: SearchOptions

    @abstractmethod
    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""

    @abstractmethod
    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""

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


def in_words(index: Searched, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
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
