"""Candidates from dense and lexical search together, each scored by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, SearchedIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import DenseRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever


class LexicalIndex(Protocol):
    """An index of words, such as `BM25Index`."""

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        ...

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents; 0 where no word matches."""
        ...

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; 0 and 0 where no word matches."""
        ...


@dataclass(frozen=True, slots=True)
class HybridRetriever(ExplainingRetriever):
    """The union of the best documents by cosine and by BM25.

    Every candidate carries its exact BM25 score, also one that only dense search found, and the pool carries
    the query's BM25 moments over all documents, which surprise-normalised fusion needs.

    Attributes:
        index: dense vectors, tokens and documents.
        lexical: the same documents' words.
        exact: dense search without the approximate index.
        options: filter and parameters of the dense search. The lexical index has its own: give a
            `SparseRetriever` the same filter.
    """

    index: SearchedIndex
    lexical: LexicalIndex
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most 2 x `depth` candidates: cosine's first, then what only BM25 found."""
        pool = self.index.search(query, depth, fields, exact=self.exact, options=self.options)
        found, _ = self.lexical.search(query.text, depth)
        dense_ids = set(pool.ids)
        missing = [name for name in found if name not in dense_ids]
        if missing:
            pool = pool.join(self.index.fetch(missing, fields))
        return replace(
            pool,
            scores={**pool.scores, "bm25": self.lexical.score(query.text, pool.ids)},
            corpus_moments={"bm25": self.lexical.moments(query.text)},
        )

    def among(self, condition: models.Filter) -> HybridRetriever:
        """The same over the documents that a filter lets through, by both.

        Raises:
            DataError: if the lexical index has no filter.
        """
        if not isinstance(self.lexical, ExplainingRetriever):
            raise DataError(
                f"a filter does not reach the words of a {type(self.lexical).__name__}; leave it out, or "
                "search by a system whose words are Qdrant's"
            )
        return replace(self, options=self.options.among(condition), lexical=self.lexical.among(condition))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = DenseRetriever(self.index, self.exact, self.options).steps(query, depth)
        lexical = [f"words: BM25 over all {len(self.index)} documents"]
        if isinstance(self.lexical, ExplainingRetriever):
            lexical = self.lexical.steps(query, depth)
        return [*dense, *lexical, f"union: the {depth} best of each, with both scores"]


@dataclass(frozen=True, slots=True)
class LexicallyScored:
    """Candidates of another retriever with their BM25 scores, and the query's BM25 moments.

    Attributes:
        retriever: finds the candidates.
        words: the same documents' words.
    """

    retriever: Retriever
    words: LexicalIndex

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool = self.retriever.retrieve(query, depth, fields)
        return replace(
            pool,
            scores={**pool.scores, "bm25": self.words.score(query.text, pool.ids)},
            corpus_moments={**pool.corpus_moments, "bm25": self.words.moments(query.text)},
        )
