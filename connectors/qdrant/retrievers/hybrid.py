"""Candidates from dense and lexical search together, each scored by both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.retrievers.dense import DenseRetriever
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever, best_of
from surprise_rerank.connectors.qdrant.schema import NUMBER, Record
from surprise_rerank.connectors.qdrant.search.pools import Asked, Pools, Search, once
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    AskedInclusion,
    SearchOptions,
    TokenSample,
)
from surprise_rerank.connectors.qdrant.search.searched import Searched
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
    """The union of the best documents by cosine and by BM25, each with both scores, and BM25's moments.

    The options are of the dense search; a `SparseRetriever` has its own. Qdrant is asked for inclusion where
    there is a sample to measure it against, and for the `cosines` of what only BM25 found, so that nobody
    needs its vectors.
    """

    index: Searched
    lexical: LexicalIndex
    exact: bool = False
    options: SearchOptions = NO_OPTIONS
    sample: TokenSample | None = None
    cosines: bool = False

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most 2 x `depth` candidates: cosine's first, then what only BM25 found.

        A collection and its own words are asked together, in two requests. Where documents are split, their
        whole texts take a third, and one more where several passages of a document count. What was added
        beside a collection takes two more. Words that are elsewhere take more.
        """
        words = self.lexical
        if isinstance(words, SparseRetriever) and words.index is self.index:
            return self._together(words, query, depth, fields)
        pool = self.index.search(query, depth, fields, exact=self.exact, options=self.options)
        found, scores = words.search(query.text, depth)
        dense_ids = set(pool.ids)
        missing = [name for name in found if name not in dense_ids]
        if missing:
            pool = pool.join(self.index.fetch(missing, fields))
        pool = with_words(pool, words, query.text, dict(zip(found, scores.tolist(), strict=True)))
        asked = None if self.sample is None else self.sample.asked(query)
        return pool if asked is None else self.index.with_inclusion(pool, asked)

    def _together(
        self, words: SparseRetriever, query: Query, depth: int, fields: frozenset[Field]
    ) -> Candidates:
        pools, sparse = self.index.pools, words.vector(query.text)
        dense = pools.asked(query)
        options = self.options.exactly() if self.exact else self.options
        # What only words find comes with its fields, or by another request.
        apart = pools.splits or pools.is_apart(words.words.vector)
        lexical, measures = words.finding(sparse, depth, frozenset() if apart else fields)
        near, by_words = pools.best(
            Search(lambda limit: [pools.near(dense, limit)], depth, fields, options), lexical
        )
        known = best_of(by_words.records, pools)
        keys = dict.fromkeys(pools.key(record) for record in near.records)
        missing = [key for key in known if key not in keys]
        inclusion = None if self.sample is None else self.sample.asked(query)
        asked = {"bm25": words.scoring(sparse, [key for key in keys if key not in known])}
        if not measures:
            asked["best"] = words.measuring(sparse)
        if inclusion is not None:
            asked["inclusion"] = _inclusion_of(inclusion, pools, near.records, missing)
        if self.cosines:
            asked["cosine"] = pools.nearness_of(dense, missing, options)
        if apart:
            asked["further"] = pools.of_documents(missing, fields)
        others = [] if pools.splits else _in_order(by_words.records, missing, pools)
        parts = {} if pools.splits else pools.parts([*near.records, *others], fields)
        answers = pools.every(asked | once(parts))
        if apart:
            others = _in_order(answers["further"], missing, pools)
        records = [*near.records, *others]
        if pools.splits:
            answers |= pools.answered(pools.parts(records, fields))
        records = pools.whole(records, fields, answers)
        name, near_to = pools.nearness(records)
        cosines = {record.id: record.score for record in answers.get("cosine", ())}
        is_near = [pools.key(record) in keys for record in records]
        further = [cosines.get(record.id, np.nan) for record in records]
        found_scores = {name: np.where(is_near, near_to, further)}
        known |= best_of(answers["bm25"], pools)
        found_scores["bm25"] = np.array([known.get(pools.key(r), 0.0) for r in records], np.float64)
        pool = pools.made(records, fields, found_scores, answers)
        best = by_words.every if measures else answers["best"]
        pool = replace(pool, corpus_moments={"bm25": words.measured(sparse, best)})
        if inclusion is None:
            return pool
        return pools.included(pool, [record.id for record in records], inclusion, answers["inclusion"])

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
        more = [] if self.sample is None else [self.sample.step(self.index.engine)]
        return [*dense, *lexical, f"union: the {depth} best of each, with both scores", *more]


def _inclusion_of(
    asked: AskedInclusion, pools: Pools, records: Sequence[Record], keys: Sequence[str]
) -> tuple[Asked, int]:
    """A request for inclusion in these points and all points of these documents, for `Pools.every`."""
    wanted = pools.these(records)
    if keys:
        wanted = models.Filter(should=[wanted, pools.among(keys)])
    return (lambda limit: pools.inclusion(asked, wanted, limit)), len(records) + len(keys)


def _in_order(records: Sequence[Record], keys: Sequence[str], pools: Pools) -> list[Record]:
    """The points of some documents, in the order of the keys and of the passages."""
    place = {key: i for i, key in enumerate(keys)}
    own = [record for record in records if pools.key(record) in place]
    return sorted(own, key=lambda r: (place[pools.key(r)], r.payload.get(NUMBER, 0) if pools.splits else 0))


@dataclass(frozen=True, slots=True)
class LexicallyScored:
    """Candidates of another retriever with their BM25 scores, and the query's BM25 moments."""

    retriever: Retriever  # finds the candidates
    words: LexicalIndex  # the same documents' words

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        return with_words(self.retriever.retrieve(query, depth, fields), self.words, query.text)


def with_words(
    pool: Candidates, words: LexicalIndex, query: str, known: Mapping[str, float] = MappingProxyType({})
) -> Candidates:
    """Candidates with their BM25 scores, and the query's BM25 moments.

    Args:
        pool: n candidates.
        words: the same documents' words.
        query: its text.
        known: document -> score, of those that the words were searched for.
    """
    others = list(dict.fromkeys(name for name in pool.ids if name not in known))
    found = dict(zip(others, words.score(query, others).tolist(), strict=True)) if others else {}
    scores = np.array([known[name] if name in known else found[name] for name in pool.ids], np.float64)
    return replace(
        pool,
        scores={**pool.scores, "bm25": scores},
        corpus_moments={**pool.corpus_moments, "bm25": words.moments(query)},
    )


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
