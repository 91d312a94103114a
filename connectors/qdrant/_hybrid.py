"""Candidates by words, by words and vectors together, each with both scores, and others' with such scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

import numpy as np
from qdrant_client import models

from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Retriever
from surprise_rerank.connectors.qdrant._languages import unread
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._retrievers import (
    DenseRetriever,
    ExplainingRetriever,
    in_words,
    narrowable,
)
from surprise_rerank.connectors.qdrant._schema import Record
from surprise_rerank.connectors.qdrant._search.beside import is_beside
from surprise_rerank.connectors.qdrant._search.corpus import Corpus, Words
from surprise_rerank.connectors.qdrant._search.finding import (
    Plan,
    Search,
    best_candidates,
    best_points,
    in_order,
    inclusion_of,
    once,
    scored,
    scores_of,
)
from surprise_rerank.connectors.qdrant._search.pools import Asked, Pools
from surprise_rerank.connectors.qdrant._search.queries import (
    NO_OPTIONS,
    InclusionQuestion,
    SearchOptions,
    having_ids,
    request,
    sparse_stage,
)
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank._feedback import Feedback, FeedbackRows, best_and_others

T = TypeVar("T")

# The best points whose scores are taken as they are, for the deviation of all scores. It is .97 to 1.01 of
# the exact one in the median of six collections' questions; with 30 .94 to 1.02, with none .51 to .90.
_BEST = 100
_INCLUSION = "{}: MaxSim of tokens over the candidates"
NO_WORD = "no document has a word of the question, so BM25 says nothing of it"


@dataclass(frozen=True, slots=True)
class SparseRetriever(ExplainingRetriever):
    """The best documents by their sparse vectors: BM25, Qdrant's own, or miniCOIL or SPLADE of a collection.

    It is a `LexicalIndex` too, for `HybridRetriever`.

    Raises:
        DataError: if the index has no sparse vectors.
    """

    corpus: Corpus
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        if self.corpus.words is None:
            raise DataError("the index stores no sparse vectors; rebuild it with the setting bm25")

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents; those that share no word with the query are not among them."""
        pools, sparse = self.corpus.pools, self.vector(query.text)
        if not is_beside(self.words.vector):
            pool = best_candidates(pools, replace(self.finding(sparse, depth), fields=fields), "bm25")
        else:
            ids, scores = self.search(query.text, depth)
            pool = self.corpus.fetch(ids, fields, skip_missing=True)
            by_id = dict(zip(ids, scores, strict=True))
            pool = replace(pool, scores={"bm25": np.array([by_id[name] for name in pool.ids], np.float64)})
        return replace(pool, notes=(*pool.notes, *self.corpus.notes_of_words(pool)))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.corpus, self._plan(self.vector(query.text))(depth), self.options)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        pools, sparse = self.corpus.pools, self.vector(query)
        (result,) = best_points(pools, self.finding(sparse, depth))
        best, names = best_of(result.records, pools), pools.names(result.records)
        present = [key for key in best if key in names]
        return tuple(names[key] for key in present), np.array([best[key] for key in present], np.float64)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents, of the best passage each; 0 where no word matches."""
        pools = self.corpus.pools
        keys = pools.keys(list(dict.fromkeys(ids)))
        requests = {"bm25": self.scoring(self.vector(query), list(keys.values()))}
        best = best_of(pools.every(requests)["bm25"], pools)
        return np.array([best.get(keys.get(name, ""), 0.0) for name in ids], np.float64)

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; over passages, where they are split.

        The mean is exact, and the deviation nearly so: see `TermStatistics.moments`. The filter does not
        count: scores of one question stay comparable whatever it lets through.
        """
        sparse = self.vector(query)
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        best = self.corpus.pools.every({"best": self.measuring(sparse)})["best"]
        return self.measured(sparse, best)

    def vector(self, query: str) -> SparseVector:
        """The query's words with their weights."""
        return self.words.embed(query)

    def finding(self, sparse: SparseVector, depth: int) -> Search:
        """A search for the best documents by their words."""
        return Search(self._plan(sparse), depth, frozenset(), self.options)

    def scoring(self, sparse: SparseVector, keys: Sequence[str]) -> tuple[Asked, int]:
        """A request for the scores of those of these documents that share a word, for `Pools.every`."""
        pools = self.corpus.pools
        search = Search(self._plan(sparse), 1, frozenset(), SearchOptions(filter=pools.among(keys)))
        documents = len(keys) if len(sparse.indices) else 0
        return (lambda limit: search.request(pools, limit)), documents

    def measuring(self, sparse: SparseVector) -> tuple[Asked, int]:
        """A request for what `measured` is told, for `Pools.every`; none where there is no word."""
        wanted = _BEST if len(sparse.indices) else 0
        return (lambda limit: request(self._plan(sparse)(_BEST), _BEST, (), ())), wanted

    def measured(self, sparse: SparseVector, best: Sequence[Record]) -> Moments:
        """The query's moments, from its best points; see `moments`."""
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        statistics = self.words.statistics(sparse.indices)
        return statistics.moments(sparse, scores_of(best[:_BEST]), idf=self.words.idf)

    def worth(self, sparse: SparseVector, best: float) -> float | None:
        """How many words of a question its best score is worth; see `Candidates.words`."""
        words, corpus = self.words, self.corpus
        if words.idf or not words.counts or unread(corpus.model, corpus.language) or not len(sparse.indices):
            return None
        return best / float(sparse.values.mean())

    def tells_moments(self, depth: int) -> bool:
        """Whether a search at a depth finds what `measured` is told: nothing narrows it."""
        return self.options == NO_OPTIONS and self.corpus.tenant is None and depth >= _BEST

    @property
    def words(self) -> Words:
        """The collection's."""
        sparse = self.corpus.words
        assert sparse is not None
        return sparse

    def _plan(self, sparse: SparseVector) -> Plan:
        return lambda limit: [sparse_stage(sparse, self.words.vector, limit, self.words.kind)]


def best_of(records: Iterable[Record], pools: Pools) -> dict[str, float]:
    """Document's key -> the score of its best point; points come best first."""
    best: dict[str, float] = {}
    for record in records:
        best.setdefault(pools.key(record), record.score)
    return best


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
    """The best documents by cosine and by BM25 in turn, each with both scores, and BM25's moments.

    The options are of the dense search; a `SparseRetriever` has its own. Qdrant is asked for inclusion where
    there is a sample to measure it against, for `cosines` of what only BM25 found, so that nobody needs its
    vectors, and with `feedback` for similarities to a second question.
    """

    corpus: Corpus
    lexical: LexicalIndex
    exact: bool = False
    options: SearchOptions = NO_OPTIONS
    sample: TokenBatch | None = None
    cosines: bool = False
    feedback: Feedback | None = None

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates: cosine's first, then what only BM25 found.

        A collection and its own words are asked together, in two requests, and in a third for feedback. Where
        documents are split, their whole texts take one more, and another one where several passages of a
        document count. What was added beside a collection takes two more. Words that are elsewhere take more.
        """
        words = self.lexical
        if isinstance(words, SparseRetriever) and words.corpus is self.corpus:
            return self._together(words, query, depth, fields)
        pool = self.corpus.search(query, depth, fields, exact=self.exact, options=self.options)
        ids, scores = words.search(query.text, depth)
        kept = in_turn(depth, pool.ids, ids)
        missing = [name for name in kept if name not in set(pool.ids)]
        pool = pool.take([row for row, name in enumerate(pool.ids) if name in kept])
        if missing:
            pool = pool.join(self.corpus.fetch(missing, fields))
        pool = with_words(pool, words, query.text, dict(zip(ids, scores.tolist(), strict=True)))
        tokens = None if self.sample is None else InclusionQuestion.of(query, self.sample)
        return pool if tokens is None else self.corpus.with_inclusion(pool, tokens)

    def _together(
        self, words: SparseRetriever, query: Query, depth: int, fields: frozenset[Field]
    ) -> Candidates:
        pools, sparse = self.corpus.pools, words.vector(query.text)
        dense = pools.near_vectors(query)
        options = self.options.exactly() if self.exact else self.options

        # First: the best by vectors, and the best by words.
        nearest = Search(lambda limit: [pools.near(dense, limit)], depth, frozenset(), options)
        by_vectors, by_words = best_points(pools, nearest, words.finding(sparse, depth))
        bm25_scores = best_of(by_words.records, pools)
        kept = in_turn(depth, map(pools.key, by_vectors.records), bm25_scores)
        near = [record for record in by_vectors.records if pools.key(record) in kept]
        matching = [record for record in by_words.records if pools.key(record) in kept]
        near_keys = dict.fromkeys(map(pools.key, near))
        missing = [key for key in bm25_scores if key in kept and key not in near_keys]

        # Second: what one search knows of the other's documents, and what neither knows.
        inclusion = None if self.sample is None else InclusionQuestion.of(query, self.sample)
        requests = {"bm25": words.scoring(sparse, [key for key in near_keys if key not in bm25_scores])}
        if not words.tells_moments(depth):
            requests["best"] = words.measuring(sparse)
        if inclusion is not None:
            requests["inclusion"] = inclusion_of(inclusion, pools, near, missing)
        if self.cosines:
            requests["cosine"] = pools.nearness_of(dense, pools.among(missing), len(missing), options)
        to_read = ([], []) if self.feedback is None else _to_read(near, matching)
        requests["read"] = pools.fields_of([*to_read[0], *to_read[1]], frozenset({"dense"}))
        # What only words find may be other points than those that the fields are of.
        is_apart = pools.splits or is_beside(words.words.vector)
        if is_apart:
            requests["further"] = pools.of_documents(missing, fields)
        further = [] if pools.splits else in_order(matching, missing, pools)
        points = near if is_apart else [*near, *further]
        if fields:
            requests["fields"] = pools.fields_of(points, fields)
        parts = {} if pools.splits else pools.parts([*near, *further], fields)
        answers = pools.every(requests | once(parts))

        # The points of all candidates, without what was deleted meanwhile.
        if fields:
            points = scored(answers["fields"], points)
        records = [*points, *(in_order(answers["further"], missing, pools) if is_apart else [])]
        if pools.splits:
            answers |= pools.answered(pools.parts(records, fields))
        records = pools.whole(records, fields, answers)

        # Their scores.
        name, nearness = pools.layout.score, pools.layout.nearness(records)
        cosines = {record.id: record.score for record in answers.get("cosine", ())}
        is_near = [pools.key(record) in near_keys for record in records]
        of_further = [cosines.get(record.id, np.nan) for record in records]
        bm25_scores |= best_of(answers["bm25"], pools)
        scores = {
            name: np.where(is_near, nearness, of_further),
            "bm25": np.array([bm25_scores.get(pools.key(record), 0.0) for record in records], np.float64),
        }
        pool = pools.candidates_of(records, fields, scores, answers)
        best = max(bm25_scores.values(), default=0.0)
        pool = _with_moments(pool, words.measured(sparse, answers.get("best", by_words.every)))
        pool = replace(pool, words=words.worth(sparse, best))
        if inclusion is not None:
            pool = pools.included(pool, [record.id for record in records], inclusion, answers["inclusion"])
        if self.feedback is None:
            return pool
        return self._with_feedback(self.feedback, query, pool, records, to_read, answers["read"])

    def _with_feedback(
        self,
        feedback: Feedback,
        query: Query,
        pool: Candidates,
        records: Sequence[Record],
        chosen_points: tuple[list[Record], list[Record]],
        read: Sequence[Record],
    ) -> Candidates:
        """Return the pool with similarities to the vector that the best candidates have in common.

        Of the points that were chosen, vectors were read; those that were deleted meanwhile have none.
        """
        pools, options = self.corpus.pools, self.options.exactly() if self.exact else self.options
        # Third: how near all of them are.
        place = {record.id: row for row, record in enumerate(records)}
        vectors = dict(zip([record.id for record in read], pools.layout.dense_of(read)[0], strict=True))
        best, others = (
            [record.id for record in part if record.id in vectors and record.id in place]
            for part in chosen_points
        )
        rows = FeedbackRows([place[point] for point in best], [place[point] for point in others])
        question = feedback.question(
            query, pool, rows, {place[point]: vector for point, vector in vectors.items() if point in place}
        )
        if question is None:
            return pool
        these = having_ids([record.id for record in records])
        requests = {"near": pools.nearness_of(question, these, len(records), options)}
        nearness = {record.id: record.score for record in pools.every(requests)["near"]}
        scores = {**pool.scores, "feedback": np.array([nearness.get(r.id, np.nan) for r in records])}
        moments = {**pool.corpus_moments, "feedback": feedback.moments(question)}
        return replace(pool, scores=scores, corpus_moments=moments)

    def filtered(self, condition: models.Filter | None) -> HybridRetriever:
        """Return the retriever whose two searches find only what a filter lets through."""
        words = cast(LexicalIndex, narrowable(self.lexical).filtered(condition))
        return replace(self, options=self.options.among(condition), lexical=words)

    def over(self, corpus: Corpus) -> HybridRetriever:
        """Return the retriever whose two searches are over other documents of the same index."""
        words = cast(LexicalIndex, narrowable(self.lexical).over(corpus))
        return replace(self, corpus=corpus, lexical=words)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = DenseRetriever(self.corpus, self.exact, self.options).steps(query, depth)
        lexical = [f"words: BM25 over all {len(self.corpus)} documents"]
        if isinstance(self.lexical, ExplainingRetriever):
            lexical = self.lexical.steps(query, depth)
        more = [] if self.sample is None else [_INCLUSION.format(self.corpus.engine)]
        if self.feedback is not None:
            more.append(f"{self.corpus.engine}: cosine to what the best have in common, over the candidates")
        return [*dense, *lexical, f"union: the {depth} best of both in turn, with both scores", *more]


def in_turn(count: int, *lists: Iterable[T]) -> dict[T, None]:
    """Return the first distinct members of several lists, taken from one list after the other."""
    rounds = zip_longest(*(dict.fromkeys(members) for members in lists))
    members = (member for member in chain.from_iterable(rounds) if member is not None)
    return dict.fromkeys(islice(dict.fromkeys(members), count))


def _to_read(*lists: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The points of several searches whose vectors make a second question; see `feedback.best_and_others`."""
    points = {record.id: record for records in lists for record in records}
    best, others = best_and_others(*([record.id for record in records] for records in lists))
    return [points[name] for name in best], [points[name] for name in others]


def with_words(
    pool: Candidates,
    words: LexicalIndex,
    query: str,
    scores_by_id: Mapping[str, float] = MappingProxyType({}),
) -> Candidates:
    """Candidates with their BM25 scores, and the query's BM25 moments.

    Args:
        pool: n candidates.
        words: the same documents' words.
        query: its text.
        scores_by_id: document -> score, of those that the words were searched for.
    """
    others = list(dict.fromkeys(name for name in pool.ids if name not in scores_by_id))
    computed = dict(zip(others, words.score(query, others).tolist(), strict=True)) if others else {}
    scores = np.array(
        [scores_by_id[name] if name in scores_by_id else computed[name] for name in pool.ids], np.float64
    )
    pool = _with_moments(replace(pool, scores={**pool.scores, "bm25": scores}), words.moments(query))
    if not isinstance(words, SparseRetriever):
        return pool
    return replace(pool, words=words.worth(words.vector(query), float(scores.max(initial=0.0))))


def _with_moments(pool: Candidates, moments: Moments) -> Candidates:
    """Candidates with BM25's moments for their question, and a note where no document has a word of it.

    Both moments are 0 then, so that in deviations above the mean BM25 counts neither for nor against.
    """
    is_read = bool(moments.mean or moments.deviation)
    notes = pool.notes if is_read or not len(pool) else (*pool.notes, NO_WORD)
    return replace(pool, corpus_moments={**pool.corpus_moments, "bm25": moments}, notes=notes)


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
    corpus: Corpus  # computes it, where the documents are
    sample: TokenBatch  # what it is measured against

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool, tokens = self.retriever.retrieve(query, depth, fields), InclusionQuestion.of(query, self.sample)
        return pool if tokens is None else self.corpus.with_inclusion(pool, tokens)

    def filtered(self, condition: models.Filter | None) -> InclusionScored:
        """Return the retriever of what a filter lets through."""
        return replace(self, retriever=narrowable(self.retriever).filtered(condition))

    def over(self, corpus: Corpus) -> InclusionScored:
        """Return the retriever over other documents of the same index."""
        return replace(self, retriever=narrowable(self.retriever).over(corpus), corpus=corpus)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        retriever = self.retriever
        before = retriever.steps(query, depth) if isinstance(retriever, ExplainingRetriever) else []
        return [*before, _INCLUSION.format(self.corpus.engine)]
