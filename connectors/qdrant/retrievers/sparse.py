"""BM25 inside Qdrant: the sparse vectors of an index as the lexical half of hybrid search, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.engines.steps import Steps, together
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.retrievers.base import ReadingRetriever, in_words
from surprise_rerank.connectors.qdrant.schema import BM25, ID, Record, to_terms
from surprise_rerank.connectors.qdrant.search.pools import Plan, among, scores_of
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    request,
    sparse_stage,
)
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.errors import DataError

# The documents whose words are taken as they occur together, for the deviation of all scores. It is .96 to
# 1.01 of the exact one in the median of eight collections' questions; with 30 .92 to 1.00, with 0 .82 to .98.
_BEST = 100


@dataclass(frozen=True, slots=True)
class SparseRetriever(ReadingRetriever):
    """The best documents by BM25, Qdrant's own; the index needs `IndexOptions(bm25=...)`, the default.

    It is a `LexicalIndex` too, for `HybridRetriever`.

    Attributes:
        index: where the documents are.
        options: filter, offset, threshold and parameters of Qdrant.

    Raises:
        DataError: if the index has no sparse vectors.
    """

    index: QdrantIndex
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        _ = self._bm25

    def retrieving(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset()
    ) -> Steps[Candidates]:
        """The `depth` best documents; those that share no word with the query are not among them."""
        plan = _plan(self.vector(query.text))  # at the first step: an event loop does not read statistics
        return (yield from self.index.pools.running(plan, depth, fields, "bm25", self.options))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.index, _plan(self.vector(query.text))(depth), self.options)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        pools, plan = self.index.pools, _plan(self.vector(query))
        best = best_of(pools.ask(pools.best(plan, depth, frozenset(), self.options), self.options).records)
        return tuple(best), np.array(list(best.values()), np.float64)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents, of the best passage each; 0 where no word matches."""
        asked = self.scoring(self.vector(query), list(dict.fromkeys(ids)))
        best = self.index.pools.ask(asked, self.options)
        return np.array([best.get(name, 0.0) for name in ids], np.float64)

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; over passages, where they are split.

        The mean is exact, and the deviation nearly so: see `TermStatistics.moments`. The filter does not
        count: scores of one question stay comparable whatever it lets through.
        """
        return self.index.pools.ask(self.measuring(self.vector(query)), self.options)

    def vector(self, query: str) -> SparseVector:
        """The query's words, with their weights where the index leaves these to the question."""
        words = self._bm25.query(query)
        if not (self.index.manifest.weighs_terms and len(words.indices)):
            return words
        return self.index.term_statistics().weighted(words)

    def finding(
        self, sparse: SparseVector, depth: int, fields: frozenset[Field]
    ) -> Steps[tuple[list[Record], Moments]]:
        """The points of the best documents, and the query's moments."""
        pools, plan = self.index.pools, _plan(sparse)
        if self.options != NO_OPTIONS or depth < _BEST:
            best = pools.best(plan, depth, fields, self.options)
            found, moments = yield from together(best, self.measuring(sparse))
            return found.records, moments
        found = yield from pools.best(plan, depth, fields, self.options, (BM25,))
        return found.records, self._moments(sparse, found.every[:_BEST])

    def scoring(self, sparse: SparseVector, ids: Sequence[str]) -> Steps[dict[str, float]]:
        """Document -> its exact score, of the best passage; for those of these that share a word."""
        options = SearchOptions(filter=among(ids))

        def asked(limit: int) -> models.QueryRequest:
            return request(_plan(sparse)(limit), limit, (ID,), (), options)

        return best_of((yield from self.index.pools.every(asked, len(ids))))

    def measuring(self, sparse: SparseVector) -> Steps[Moments]:
        """See `moments`."""
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        (best,) = yield [request(_plan(sparse)(_BEST), _BEST, (), (BM25,))]
        return self._moments(sparse, best)

    def _moments(self, sparse: SparseVector, best: Sequence[Record]) -> Moments:
        statistics, idf = self.index.term_statistics(), not self.index.manifest.weighs_terms
        return statistics.moments(sparse, to_terms(best), scores_of(best), idf=idf)

    @property
    def _bm25(self) -> Bm25:
        settings = self.index.manifest.options.bm25
        if settings is None:
            raise DataError("the index stores no sparse vectors; rebuild it with IndexOptions(bm25=Bm25())")
        return settings


def _plan(sparse: SparseVector) -> Plan:
    return lambda limit: [sparse_stage(sparse, BM25, limit)]


def best_of(records: Iterable[Record]) -> dict[str, float]:
    """Document -> the score of its best point; points come best first."""
    best: dict[str, float] = {}
    for record in records:
        best.setdefault(record.payload[ID], record.score)
    return best
