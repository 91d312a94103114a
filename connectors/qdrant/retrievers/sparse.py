"""BM25 inside Qdrant: the sparse vectors of an index as the lexical half of hybrid search, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, in_words
from surprise_rerank.connectors.qdrant.schema import Record, to_terms
from surprise_rerank.connectors.qdrant.search.pools import Asked, Plan, Pools, Search, scores_of
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    request,
    sparse_stage,
)
from surprise_rerank.connectors.qdrant.search.searched import Searched, Words
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.errors import DataError

# The documents whose words are taken as they occur together, for the deviation of all scores. It is .96 to
# 1.01 of the exact one in the median of eight collections' questions; with 30 .92 to 1.00, with 0 .82 to .98.
_BEST = 100


@dataclass(frozen=True, slots=True)
class SparseRetriever(ExplainingRetriever):
    """The best documents by their sparse vectors: BM25, Qdrant's own, or miniCOIL or SPLADE of a collection.

    It is a `LexicalIndex` too, for `HybridRetriever`.

    Raises:
        DataError: if the index has no sparse vectors.
    """

    index: Searched
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        if self.index.words is None:
            raise DataError("the index stores no sparse vectors; rebuild it with the setting bm25")

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents; those that share no word with the query are not among them."""
        pools, sparse = self.index.pools, self.vector(query.text)
        search, _ = self.finding(sparse, depth, fields)
        if not pools.is_apart(self.words.vector):
            pool = pools.run(replace(search, vectors=()), "bm25")
        else:
            ids, scores = self.search(query.text, depth)
            pool, known = (
                self.index.fetch(ids, fields, skip_missing=True),
                dict(zip(ids, scores, strict=True)),
            )
            pool = replace(pool, scores={"bm25": np.array([known[name] for name in pool.ids], np.float64)})
        return replace(pool, notes=(*pool.notes, *self.index.notes_of_words(pool)))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.index, self._plan(self.vector(query.text))(depth), self.options)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        pools, sparse = self.index.pools, self.vector(query)
        (found,) = pools.best(Search(self._plan(sparse), depth, frozenset(), self.options))
        best, names = best_of(found.records, pools), pools.names(found.records)
        there = [key for key in best if key in names]
        return tuple(names[key] for key in there), np.array([best[key] for key in there], np.float64)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents, of the best passage each; 0 where no word matches."""
        pools = self.index.pools
        keys = pools.keys(list(dict.fromkeys(ids)))
        asked = {"bm25": self.scoring(self.vector(query), list(keys.values()))}
        best = best_of(pools.every(asked)["bm25"], pools)
        return np.array([best.get(keys.get(name, ""), 0.0) for name in ids], np.float64)

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; over passages, where they are split.

        The mean is exact, and the deviation nearly so: see `TermStatistics.moments`. The filter does not
        count: scores of one question stay comparable whatever it lets through.
        """
        sparse = self.vector(query)
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        best = self.index.pools.every({"best": self.measuring(sparse)})["best"]
        return self.measured(sparse, best)

    def vector(self, query: str) -> SparseVector:
        """The query's words with their weights."""
        return self.words.embed(query)

    def finding(self, sparse: SparseVector, depth: int, fields: frozenset[Field]) -> tuple[Search, bool]:
        """A search for the best documents, and whether `measured` can be told of what it finds."""
        measures = self.options == NO_OPTIONS and depth >= _BEST
        vectors = (self.words.vector,) if measures else ()
        return Search(self._plan(sparse), depth, fields, self.options, vectors), measures

    def scoring(self, sparse: SparseVector, keys: Sequence[str]) -> tuple[Asked, int]:
        """A request for the scores of those of these documents that share a word, for `Pools.every`."""
        pools, plan = self.index.pools, self._plan(sparse)
        search = Search(plan, 1, frozenset(), SearchOptions(filter=pools.among(keys)))
        found = len(keys) if len(sparse.indices) else 0
        return (lambda limit: pools.request(plan(limit), limit, search, search.options)), found

    def measuring(self, sparse: SparseVector) -> tuple[Asked, int]:
        """A request for what `measured` is told, for `Pools.every`; none where there is no word."""
        found, own = _BEST if len(sparse.indices) else 0, (self.words.vector,)
        return (lambda limit: request(self._plan(sparse)(_BEST), _BEST, (), own)), found

    def measured(self, sparse: SparseVector, best: Sequence[Record]) -> Moments:
        """The query's moments, from its best points with their terms; see `moments`."""
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        known, own = best[:_BEST], self.words
        return own.statistics().moments(sparse, to_terms(known, own.vector), scores_of(known), idf=own.idf)

    @property
    def words(self) -> Words:
        """The collection's."""
        found = self.index.words
        assert found is not None
        return found

    def _plan(self, sparse: SparseVector) -> Plan:
        return lambda limit: [sparse_stage(sparse, self.words.vector, limit, self.words.kind)]


def best_of(records: Iterable[Record], pools: Pools) -> dict[str, float]:
    """Document's key -> the score of its best point; points come best first."""
    best: dict[str, float] = {}
    for record in records:
        best.setdefault(pools.key(record), record.score)
    return best
