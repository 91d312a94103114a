"""Retrieve and re-rank: a retriever and a re-ranker in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from surprise_rerank.candidates import Candidates, Query, Ranking
from surprise_rerank.encoders import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank import Field, Reranker


class Retriever(Protocol):
    """Anything that makes a candidate pool for a query."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates with these fields filled, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A question in, a ranking out.

    Attributes:
        encoder: of the model that the documents were encoded with.
        retriever: makes the candidate pool.
        reranker: orders it.
        depth: size of the candidate pool.
    """

    encoder: Encoder
    retriever: Retriever
    reranker: Reranker
    depth: int = 100

    def search(self, question: str, top_k: int = 10) -> Ranking:
        """The best documents for a question, with their text.

        Raises:
            DataError: if top_k is not positive.
        """
        if top_k < 1:
            raise DataError(f"top_k must be at least 1, got {top_k}")
        (query,) = encode_queries(self.encoder, [question])
        depth = max(self.depth, top_k)
        pool = self.retriever.retrieve(query, depth, self.reranker.needs | {"documents"})
        return self.reranker.rerank(query, pool).top(top_k)
