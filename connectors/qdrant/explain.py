"""What a retriever did for a query, in words and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.connectors.qdrant.index import DocumentIndex
from surprise_rerank.connectors.qdrant.queries import SearchOptions, Stage


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a retriever did for a query.

    Attributes:
        steps: one line each, in their order: where, what, over how many.
        seconds: how long it took, fetching included.
        ranking: the documents in order, with what each stage gave them.
    """

    steps: tuple[str, ...]
    seconds: float
    ranking: Ranking


class Explaining(Protocol):
    """A retriever that can tell what it does."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""
        ...

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        ...


def explained(retriever: Explaining, query: Query, depth: int, fields: frozenset[Field]) -> Explanation:
    """Retrieve, and tell what was done."""
    begun = time.perf_counter()
    pool = retriever.retrieve(query, depth, fields)
    seconds = time.perf_counter() - begun
    scores = next(iter(pool.scores.values()))
    return Explanation(
        tuple(retriever.steps(query, depth)), seconds, Ranking.order(pool, scores, pool.scores)
    )


def in_words(index: DocumentIndex, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
    """The stages in words."""
    first = f"all {len(index)} documents"
    if options.filter is not None:
        first += " that the filter lets through"
    sources = [first, *(f"the {stage.limit} best of these" for stage in stages[:-1])]
    return [
        f"{index.engine}: {stage.name} over {source}" for stage, source in zip(stages, sources, strict=True)
    ]
