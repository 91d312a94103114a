"""Candidates that another retriever has found, with scores that it does not give."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.hybrid import LexicalIndex, with_words
from surprise_rerank.connectors.qdrant.retrievers import ExplainingRetriever, narrowable
from surprise_rerank.connectors.qdrant.search.queries import TokenSample
from surprise_rerank.connectors.qdrant.search.searched import SearchedCollection
from surprise_rerank.pipeline import Retriever


@dataclass(frozen=True, slots=True)
class LexicallyScored:
    """Candidates of another retriever with their BM25 scores, and the query's BM25 moments."""

    retriever: Retriever  # finds the candidates
    words: LexicalIndex  # the same documents' words

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        return with_words(self.retriever.retrieve(query, depth, fields), self.words, query.text)


@dataclass(frozen=True, slots=True)
class InclusionScored(ExplainingRetriever):
    """Candidates of another retriever, with inclusion of the question's tokens."""

    retriever: Retriever  # finds the candidates
    index: SearchedCollection  # computes it, where the documents are
    sample: TokenSample  # what it is measured against

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool, tokens = self.retriever.retrieve(query, depth, fields), self.sample.asked(query)
        return pool if tokens is None else self.index.with_inclusion(pool, tokens)

    def filtered(self, condition: models.Filter | None) -> InclusionScored:
        """Return the retriever of what a filter lets through."""
        return replace(self, retriever=narrowable(self.retriever).filtered(condition))

    def over(self, index: SearchedCollection) -> InclusionScored:
        """Return the retriever over other documents of the same index."""
        return replace(self, retriever=narrowable(self.retriever).over(index), index=index)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        retriever = self.retriever
        before = retriever.steps(query, depth) if isinstance(retriever, ExplainingRetriever) else []
        return [*before, self.sample.step(self.index.engine)]
