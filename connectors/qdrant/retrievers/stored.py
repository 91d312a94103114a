"""Candidates by id from an index, to re-rank what another system retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.retrievers.hybrid import LexicalIndex, with_words
from surprise_rerank.connectors.qdrant.search.searched import Searched


@dataclass(frozen=True, slots=True)
class StoredCandidates:
    """What an index has of documents that are named."""

    index: Searched  # where vectors, tokens and texts come from
    words: LexicalIndex | None = None  # for BM25's scores of them, and its moments; none where None

    @property
    def pooling(self) -> float:
        """Tokens that are merged into one of their vectors, on average."""
        return self.index.pooling

    def candidates(self, query: Query, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Those of these documents that the index has, in this order; with BM25's scores, if any."""
        pool = self.index.fetch(ids, fields, skip_missing=True)
        return pool if self.words is None else with_words(pool, self.words, query.text)
