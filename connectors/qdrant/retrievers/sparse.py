"""BM25 inside Qdrant: the sparse vectors of an index as the lexical half of hybrid search, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, in_words
from surprise_rerank.connectors.qdrant.schema import BM25, ID, Record, to_terms
from surprise_rerank.connectors.qdrant.search.pools import Asked, Plan, Search, among, scores_of
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
class SparseRetriever(ExplainingRetriever):
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

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents; those that share no word with the query are not among them."""
        search = Search(_plan(self.vector(query.text)), depth, fields, self.options)
        return self.index.pools.run(search, "bm25")

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.index, _plan(self.vector(query.text))(depth), self.options)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        (found,) = self.index.pools.best(Search(_plan(self.vector(query)), depth, frozenset(), self.options))
        best = best_of(found.records)
        return tuple(best), np.array(list(best.values()), np.float64)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents, of the best passage each; 0 where no word matches."""
        asked = {"bm25": self.scoring(self.vector(query), list(dict.fromkeys(ids)))}
        best = best_of(self.index.pools.every(asked, self.options)["bm25"])
        return np.array([best.get(name, 0.0) for name in ids], np.float64)

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; over passages, where they are split.

        The mean is exact, and the deviation nearly so: see `TermStatistics.moments`. The filter does not
        count: scores of one question stay comparable whatever it lets through.
        """
        sparse = self.vector(query)
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        best = self.index.pools.every({"best": self.measuring(sparse)}, self.options)["best"]
        return self.measured(sparse, best)

    def vector(self, query: str) -> SparseVector:
        """The query's words with their weights."""
        words = self._bm25.query(query)
        return self.index.term_statistics().weighted(words) if len(words.indices) else words

    def finding(self, sparse: SparseVector, depth: int, fields: frozenset[Field]) -> tuple[Search, bool]:
        """A search for the best documents, and whether `measured` can be told of what it finds."""
        measures = self.options == NO_OPTIONS and depth >= _BEST
        return Search(_plan(sparse), depth, fields, self.options, (BM25,) if measures else ()), measures

    def scoring(self, sparse: SparseVector, ids: Sequence[str]) -> tuple[Asked, int]:
        """A request for the scores of those of these documents that share a word, for `Pools.every`."""
        options = SearchOptions(filter=among(ids))
        return (lambda limit: request(_plan(sparse)(limit), limit, (ID,), (), options)), len(ids)

    def measuring(self, sparse: SparseVector) -> tuple[Asked, int]:
        """A request for what `measured` is told, for `Pools.every`; none where there is no word."""
        found = _BEST if len(sparse.indices) else 0
        return (lambda limit: request(_plan(sparse)(_BEST), _BEST, (), (BM25,))), found

    def measured(self, sparse: SparseVector, best: Sequence[Record]) -> Moments:
        """The query's moments, from its best points with their terms; see `moments`."""
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        known = best[:_BEST]
        return self.index.term_statistics().moments(sparse, to_terms(known), scores_of(known), idf=False)

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
