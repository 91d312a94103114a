"""Candidates with inclusion of a question's tokens, which Qdrant computes from multivectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.search.inclusion import TokenSample
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever


@dataclass(frozen=True, slots=True)
class InclusionScored(ExplainingRetriever):
    """Candidates of another retriever, with inclusion of the question's tokens."""

    retriever: Retriever  # finds the candidates
    index: Searched  # computes it, where the documents are
    sample: TokenSample  # what it is measured against

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool, asked = self.retriever.retrieve(query, depth, fields), self.sample.asked(query)
        return pool if asked is None else self.index.with_inclusion(pool, asked)

    def among(self, condition: models.Filter) -> InclusionScored:
        """The same over the documents that a filter lets through.

        Raises:
            DataError: if the other retriever has no filter.
        """
        if not isinstance(self.retriever, ExplainingRetriever):
            raise DataError(
                f"a filter does not reach a {type(self.retriever).__name__}; leave it out, or search by a "
                "system of the index"
            )
        return replace(self, retriever=self.retriever.among(condition))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        own = self.retriever
        before = own.steps(query, depth) if isinstance(own, ExplainingRetriever) else []
        return [*before, self.sample.step(self.index.engine)]
