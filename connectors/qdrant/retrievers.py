"""From a question to a pool of candidates: by dense vectors, surprise, words, or several of these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, cast, get_args

import numpy as np
from qdrant_client import models

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Field, Query, Unit
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.schema import Record
from surprise_rerank.connectors.qdrant.search.pools import (
    Asked,
    Plan,
    Pools,
    Search,
    in_order,
    inclusion_of,
    once,
    scored,
    scores_of,
)
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    TokenSample,
    dense_stage,
    formula_stage,
    request,
    sparse_stage,
    surprise_stage,
)
from surprise_rerank.connectors.qdrant.search.searched import Searched, Words
from surprise_rerank.connectors.qdrant.writing.statistics import behind as points_behind
from surprise_rerank.connectors.qdrant.writing.statistics import no_ensemble
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.rerank.feedback import Chosen, Feedback, chosen
from surprise_rerank.surprise.score import probability


class ExplainingRetriever(ABC):
    """A retriever from an index that tells what it does, in words; a dataclass, mostly with `options`."""

    __slots__ = ()
    index: Searched

    @abstractmethod
    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]] | None:
        """Reads what is shown, by id; see `Searched.documents`."""
        return self.index.documents

    @property
    def is_empty(self) -> bool:
        """Whether there is no document at all, whatever is asked."""
        return not len(self.index)

    def passages(self, ids: Sequence[str]) -> Candidates:
        """All passages of documents, without texts."""
        return self.index.fetch(list(dict.fromkeys(ids)), frozenset(), skip_missing=True)

    def has_a_word_of(self, question: str) -> bool | None:
        """Whether a document has a word of the question; None where nobody counts words."""
        words = self.index.words
        if words is None or not words.counts:
            return None
        return words.statistics().has_one_of(words.embed(question))

    @abstractmethod
    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""

    def among(self, condition: models.Filter | None, tenant: str | None = None) -> Self:
        """The same over the documents of a tenant that a filter lets through, beside its own filter.

        Raises:
            DataError: if the index has no tenants, or something that is asked, too, has no filter.
        """
        return (self if tenant is None else self.over(self.index.of_tenant(tenant))).filtered(condition)

    def by_unit(self, unit: Unit) -> Self:
        """The same for documents, or for their passages; a DataError if something asked has none."""
        index = self.index.by_unit(unit)
        return self if index is self.index else self.over(index)

    def filtered(self, condition: models.Filter | None) -> Self:
        """The same over what a filter lets through."""
        retriever = cast(Any, self)
        return cast(Self, replace(retriever, options=retriever.options.among(condition)))

    def over(self, index: Searched) -> Self:
        """The same over other documents of the same index, such as a tenant's."""
        return cast(Self, replace(cast(Any, self), index=index))


def narrowable(part: object) -> ExplainingRetriever:
    """Return a retriever, or the words that one asks, which take filters and tenants.

    Raises:
        DataError: if they take none.
    """
    if isinstance(part, ExplainingRetriever):
        return part
    raise DataError(
        f"filter, tenant and unit do not reach a {type(part).__name__}; leave them out, or search by a "
        "system of the index, whose words are Qdrant's"
    )


def in_words(index: Searched, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
    """The stages in words."""
    first = f"all {len(index)} documents"
    if options.filter is not None:
        first += " that the filter lets through"
    if index.tenant is not None:
        first += f" of tenant {index.tenant!r}"
    sources = [first, *(f"the {stage.limit} best of these" for stage in stages[:-1])]
    return [
        f"{index.engine}: {stage.name} over {source}" for stage, source in zip(stages, sources, strict=True)
    ]


T = TypeVar("T")
SurpriseMode: TypeAlias = Literal["formula", "vector"]

# The augmented vectors rank by a float32 sum, so those behind the last place may belong before it.
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class DenseRetriever(ExplainingRetriever):
    """The documents nearest by cosine; exact without the approximate index, where there is one."""

    index: Searched
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` nearest documents, with what the re-ranker needs."""
        return self.index.search(query, depth, fields, exact=self.exact, options=self.options)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        pools = self.index.pools
        return in_words(self.index, [pools.near(pools.asked(query), depth)], self.options)


@dataclass(frozen=True)
class SurpriseRetriever(ExplainingRetriever):
    """Documents by the surprise z of their cosine over the index's ensemble; both modes rank alike.

    - `formula`: Qdrant re-scores the nearest by cosine, a `pool` of them; only ids travel.
    - `vector`: Qdrant searches the augmented vectors, so that no pool misses what cosine ranks low.

    z is in float32, as Qdrant computes it; ties are ordered by id.
    """

    index: Searched
    mode: SurpriseMode = "formula"
    pool: int | None = None
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        border.choice("mode", self.mode, get_args(SurpriseMode))
        storage = self.index.storage
        if storage is None:
            raise DataError(
                f"{self.index.where} is no index of surprise-rerank: its documents carry no moments"
            )
        if self.mode == "vector" and not storage.manifest.options.surprise_vector:
            raise DataError(
                "the index stores no augmented vectors; rebuild it with the setting surprise_vector, or "
                "choose the mode formula"
            )
        statistics = storage.manifest.statistics
        if statistics is None:
            raise no_ensemble(self.index.where)
        behind = points_behind(storage, statistics)
        if behind:
            raise IndexMismatchError(
                f"{behind} documents of {self.index.where} carry moments of another ensemble than "
                f"{statistics.version} ({statistics.source or 'no source given'}); finish the pass "
                "('surprise-rerank tune ensemble', or refresh_statistics)"
            )

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` most surprising documents; scores are `surprise` (z) and its `probability`."""
        dense, skipped = query.require_dense(), self.options.offset or 0
        options = replace(self.options.exactly() if self.exact else self.options, offset=None)
        last, margin = depth + skipped, _MARGIN
        while True:
            wanted = self._wanted(last, margin)
            search = Search(lambda limit: self._stages(dense, limit), wanted, fields, options)
            found = self.index.pools.run(search, "surprise")
            ordered = _above(_ordered(found, np.asarray(found.scores["surprise"], np.float64)), options)
            names = list(dict.fromkeys(ordered.line_keys))
            # Qdrant cuts equals anywhere: only with all of them here is it known which come first by id.
            whole = len(names) < wanted or self._wanted(last, 4 * margin) == wanted
            if whole or not _is_tied(ordered, names[last - 1], names[-1]):
                return _documents(ordered, skipped, last)
            margin *= 4

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = query.require_dense()
        storage = self.index.storage
        assert storage is not None
        record = storage.manifest.statistics
        assert record is not None
        source = f", {record.source}" if record.source else ""
        ensemble = f"ensemble {record.ensemble} of {record.count} members{source}"
        lines = in_words(self.index, self._stages(dense, self._wanted(depth, 0)), self.options)
        return [*lines, f"mu and sigma: of each document, {ensemble}"]

    def _wanted(self, last: int, margin: int) -> int:
        """How many documents are asked for, so that `last` of them are certain."""
        return last + margin if self.mode == "vector" else min(last + margin, max(last, self.pool or last))

    def _stages(self, dense: Float32Array, limit: int) -> list[Stage]:
        if self.mode == "formula":
            return [dense_stage(dense, _points(self.index, self.pool, limit)), formula_stage(limit)]
        wide = limit + _MARGIN
        return [surprise_stage(dense, wide), dense_stage(dense, wide), formula_stage(limit)]


def _points(index: Searched, pool: int | None, limit: int) -> int:
    """How many points a pool of documents has, about, where they are split; no fewer than asked for."""
    return max(limit, math.ceil((pool or 0) * index.pools.density))


def _ordered(found: Candidates, z: Float64Array) -> Candidates:
    """Candidates by z, ties by id, with z and its probability as their scores."""
    others = {name: own for name, own in found.scores.items() if name != "surprise"}
    scores = {"surprise": z, "probability": probability(z), **others}
    keys = found.line_keys
    order = sorted(range(len(found)), key=lambda i: (-z[i], keys[i]))
    scored = replace(found, scores=scores)
    return scored if order == list(range(len(found))) else scored.take(order)


def _above(ordered: Candidates, options: SearchOptions) -> Candidates:
    """Those whose z reaches the threshold, which a formula of an early Qdrant (1.15) does not look at."""
    if options.score_threshold is None:
        return ordered
    # JSON has the shortest decimal of a float32, which is another float64.
    z = np.asarray(ordered.scores["surprise"], np.float32)
    return ordered.take(np.flatnonzero(z >= np.float32(options.score_threshold)))


def _is_tied(ordered: Candidates, key: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether the best scores of two lines are equal."""
    z, keys = ordered.scores["surprise"], ordered.line_keys
    return bool(z[keys.index(key)] == z[keys.index(other)])


def _documents(ordered: Candidates, first: int, last: int) -> Candidates:
    """The documents from one place to another, each with all its rows."""
    keys = ordered.line_keys
    names = list(dict.fromkeys(keys))
    if first == 0 and len(names) <= last:
        return ordered
    kept = set(names[first:last])
    return ordered.take([i for i, key in enumerate(keys) if key in kept])


# The best points whose scores are taken as they are, for the deviation of all scores. It is .97 to 1.01 of
# the exact one in the median of six collections' questions; with 30 .94 to 1.02, with none .51 to .90.
_BEST = 100
NO_WORD = "no document has a word of the question, so BM25 says nothing of it"


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
        if not pools.is_apart(self.words.vector):
            pool = pools.run(replace(self.finding(sparse, depth), fields=fields), "bm25")
        else:
            ids, scores = self.search(query.text, depth)
            pool = self.index.fetch(ids, fields, skip_missing=True)
            known = dict(zip(ids, scores, strict=True))
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

    def finding(self, sparse: SparseVector, depth: int) -> Search:
        """A search for the best documents by their words."""
        return Search(self._plan(sparse), depth, frozenset(), self.options)

    def scoring(self, sparse: SparseVector, keys: Sequence[str]) -> tuple[Asked, int]:
        """A request for the scores of those of these documents that share a word, for `Pools.every`."""
        pools, plan = self.index.pools, self._plan(sparse)
        search = Search(plan, 1, frozenset(), SearchOptions(filter=pools.among(keys)))
        found = len(keys) if len(sparse.indices) else 0
        return (lambda limit: pools.request(plan(limit), limit, search, search.options)), found

    def measuring(self, sparse: SparseVector) -> tuple[Asked, int]:
        """A request for what `measured` is told, for `Pools.every`; none where there is no word."""
        wanted = _BEST if len(sparse.indices) else 0
        return (lambda limit: request(self._plan(sparse)(_BEST), _BEST, (), ())), wanted

    def measured(self, sparse: SparseVector, best: Sequence[Record]) -> Moments:
        """The query's moments, from its best points; see `moments`."""
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        return self.words.statistics().moments(sparse, scores_of(best[:_BEST]), idf=self.words.idf)

    def tells_moments(self, depth: int) -> bool:
        """Whether a search at a depth finds what `measured` is told: nothing narrows it."""
        return self.options == NO_OPTIONS and self.index.tenant is None and depth >= _BEST

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

    index: Searched
    lexical: LexicalIndex
    exact: bool = False
    options: SearchOptions = NO_OPTIONS
    sample: TokenSample | None = None
    cosines: bool = False
    feedback: Feedback | None = None

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates: cosine's first, then what only BM25 found.

        A collection and its own words are asked together, in two requests, and in a third for feedback. Where
        documents are split, their whole texts take one more, and another one where several passages of a
        document count. What was added beside a collection takes two more. Words that are elsewhere take more.
        """
        words = self.lexical
        if isinstance(words, SparseRetriever) and words.index is self.index:
            return self._together(words, query, depth, fields)
        pool = self.index.search(query, depth, fields, exact=self.exact, options=self.options)
        found, scores = words.search(query.text, depth)
        kept = in_turn(depth, pool.ids, found)
        missing = [name for name in kept if name not in set(pool.ids)]
        pool = pool.take([row for row, name in enumerate(pool.ids) if name in kept])
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

        # First: the best by vectors, and the best by words.
        nearest = Search(lambda limit: [pools.near(dense, limit)], depth, frozenset(), options)
        by_vectors, by_words = pools.best(nearest, words.finding(sparse, depth))
        known = best_of(by_words.records, pools)
        kept = in_turn(depth, map(pools.key, by_vectors.records), known)
        near = [record for record in by_vectors.records if pools.key(record) in kept]
        matching = [record for record in by_words.records if pools.key(record) in kept]
        keys = dict.fromkeys(map(pools.key, near))
        missing = [key for key in known if key in kept and key not in keys]

        # Second: what one search knows of the other's documents, and what neither knows.
        inclusion = None if self.sample is None else self.sample.asked(query)
        asked = {"bm25": words.scoring(sparse, [key for key in keys if key not in known])}
        if not words.tells_moments(depth):
            asked["best"] = words.measuring(sparse)
        if inclusion is not None:
            asked["inclusion"] = inclusion_of(inclusion, pools, near, missing)
        if self.cosines:
            asked["cosine"] = pools.nearness_of(dense, pools.among(missing), len(missing), options)
        to_read = ([], []) if self.feedback is None else _to_read(near, matching)
        asked["read"] = pools.fields_of([*to_read[0], *to_read[1]], frozenset({"dense"}))
        # What only words find may be other points than those that the fields are of.
        apart = pools.splits or pools.is_apart(words.words.vector)
        if apart:
            asked["further"] = pools.of_documents(missing, fields)
        others = [] if pools.splits else in_order(matching, missing, pools)
        points = near if apart else [*near, *others]
        if fields:
            asked["fields"] = pools.fields_of(points, fields)
        parts = {} if pools.splits else pools.parts([*near, *others], fields)
        answers = pools.every(asked | once(parts))
        if fields:
            points = scored(answers["fields"], points)  # without what was deleted meanwhile
        others = in_order(answers["further"], missing, pools) if apart else []
        records = [*points, *others]
        if pools.splits:
            answers |= pools.answered(pools.parts(records, fields))
        records = pools.whole(records, fields, answers)
        name, near_to = pools.nearness(records)
        cosines = {record.id: record.score for record in answers.get("cosine", ())}
        is_near = [pools.key(record) in keys for record in records]
        further = [cosines.get(record.id, np.nan) for record in records]
        scores = {name: np.where(is_near, near_to, further)}
        known |= best_of(answers["bm25"], pools)
        scores["bm25"] = np.array([known.get(pools.key(r), 0.0) for r in records], np.float64)
        pool = pools.made(records, fields, scores, answers)
        pool = _with_moments(pool, words.measured(sparse, answers.get("best", by_words.every)))
        if inclusion is not None:
            points_of = [record.id for record in records]
            pool = pools.included(pool, points_of, inclusion, answers["inclusion"])
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
        """The pool, whose points these are, with similarities to what the best have in common.

        Of the points that were chosen, vectors were read; those that were deleted meanwhile have none.
        """
        pools, options = self.index.pools, self.options.exactly() if self.exact else self.options
        # Third: how near all of them are.
        place = {record.id: row for row, record in enumerate(records)}
        vectors = dict(zip([record.id for record in read], pools.dense_of(read), strict=True))
        best, others = (
            [record.id for record in part if record.id in vectors and record.id in place]
            for part in chosen_points
        )
        rows = Chosen([place[point] for point in best], [place[point] for point in others])
        question = feedback.question(
            query, pool, rows, {place[point]: vector for point, vector in vectors.items() if point in place}
        )
        if question is None:
            return pool
        asked = {"near": pools.nearness_of(question, pools.these(records), len(records), options)}
        nearness = {record.id: record.score for record in pools.every(asked)["near"]}
        scores = {**pool.scores, "feedback": np.array([nearness.get(r.id, np.nan) for r in records])}
        moments = {**pool.corpus_moments, "feedback": feedback.moments(question)}
        return replace(pool, scores=scores, corpus_moments=moments)

    def filtered(self, condition: models.Filter | None) -> HybridRetriever:
        """The same over what a filter lets through, by both."""
        words = cast(LexicalIndex, narrowable(self.lexical).filtered(condition))
        return replace(self, options=self.options.among(condition), lexical=words)

    def over(self, index: Searched) -> HybridRetriever:
        """The same over other documents of the same index, by both."""
        words = cast(LexicalIndex, narrowable(self.lexical).over(index))
        return replace(self, index=index, lexical=words)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = DenseRetriever(self.index, self.exact, self.options).steps(query, depth)
        lexical = [f"words: BM25 over all {len(self.index)} documents"]
        if isinstance(self.lexical, ExplainingRetriever):
            lexical = self.lexical.steps(query, depth)
        more = [] if self.sample is None else [self.sample.step(self.index.engine)]
        if self.feedback is not None:
            more.append(f"{self.index.engine}: cosine to what the best have in common, over the candidates")
        return [*dense, *lexical, f"union: the {depth} best of both in turn, with both scores", *more]


def in_turn(count: int, *lists: Iterable[T]) -> dict[T, None]:
    """Return the first distinct members of several lists, taken from one list after the other."""
    rounds = zip_longest(*(dict.fromkeys(members) for members in lists))
    members = (member for member in chain.from_iterable(rounds) if member is not None)
    return dict.fromkeys(islice(dict.fromkeys(members), count))


def _to_read(*lists: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The points of several searches whose vectors make a second question; see `feedback.chosen`."""
    points = {record.id: record for records in lists for record in records}
    best, others = chosen(*([record.id for record in records] for records in lists))
    return [points[name] for name in best], [points[name] for name in others]


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
    return _with_moments(replace(pool, scores={**pool.scores, "bm25": scores}), words.moments(query))


def _with_moments(pool: Candidates, moments: Moments) -> Candidates:
    """Candidates with BM25's moments for their question, and a note where no document has a word of it.

    Both moments are 0 then, so that in deviations above the mean BM25 counts neither for nor against.
    """
    is_read = bool(moments.mean or moments.deviation)
    notes = pool.notes if is_read or not len(pool) else (*pool.notes, NO_WORD)
    return replace(pool, corpus_moments={**pool.corpus_moments, "bm25": moments}, notes=notes)
