"""Retrieve and re-rank: a retriever and a re-ranker in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.encoders import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank import Reranker
from surprise_rerank.workers import in_thread


class Retriever(Protocol):
    """Anything that makes a candidate pool for a query."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates with these fields filled, best first.

        The scores that they are ordered by are the first of `Candidates.scores`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A question in, a ranking out.

    Attributes:
        encoder: of the model that the documents were encoded with.
        retriever: makes the candidate pool.
        reranker: orders it. Without one, the retriever's own scores do: the first of `Candidates.scores`,
            where a candidate that has none of them (NaN) comes last, with minus infinity.
        depth: size of the candidate pool.
    """

    encoder: Encoder
    retriever: Retriever
    reranker: Reranker | None = None
    depth: int = 100

    def search(self, question: str, top_k: int = 10) -> Ranking:
        """The best documents for a question, with their text.

        Raises:
            DataError: if top_k is not positive, or neither a re-ranker nor the retriever has scores.
        """
        if top_k < 1:
            raise DataError(f"top_k must be at least 1, got {top_k}")
        (query,) = encode_queries(self.encoder, [question])
        depth = max(self.depth, top_k)
        needs: frozenset[Field] = frozenset() if self.reranker is None else self.reranker.needs
        pool = self.retriever.retrieve(query, depth, needs | {"documents"})
        ranking = _as_retrieved(pool) if self.reranker is None else self.reranker.rerank(query, pool)
        return ranking.top(top_k)

    async def asearch(self, question: str, top_k: int = 10) -> Ranking:
        """`search` in another thread, while the event loop goes on; see `workers.in_thread`.

        Raises:
            DataError: as `search`.
        """
        return await in_thread(self.search, question, top_k)


def _as_retrieved(pool: Candidates) -> Ranking:
    if not pool.scores and len(pool):
        raise DataError("the retriever gave no scores to order documents by; give the pipeline a re-ranker")
    scores = next(iter(pool.scores.values()), np.zeros(0))
    return Ranking.order(pool, np.where(np.isnan(scores), -np.inf, scores), pool.scores)
