"""First-stage retrieval from a `DocumentIndex`."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.qdrant.index import DocumentIndex
from surprise_rerank.rerank import Field


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """The documents nearest by cosine.

    Attributes:
        index: where they are.
        exact: search without the approximate index, where the engine has built one.
    """

    index: DocumentIndex
    exact: bool = False

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` nearest documents, with what the re-ranker needs."""
        return self.index.search(query, depth, fields, exact=self.exact)
