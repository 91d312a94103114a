"""The best documents of searches: of documents that may have several points, and of what was added beside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from qdrant_client import models

from surprise_rerank._candidates import Candidates, Field
from surprise_rerank.connectors.qdrant._schema import NUMBER, Record
from surprise_rerank.connectors.qdrant._search.beside import is_beside
from surprise_rerank.connectors.qdrant._search.pools import Asked, Pools
from surprise_rerank.connectors.qdrant._search.queries import (
    InclusionQuestion,
    SearchOptions,
    Stage,
    having_ids,
)
from surprise_rerank.core.arrays import Float64Array

# Stages for a number of points.
Plan: TypeAlias = Callable[[int], Sequence[Stage]]

_ROUNDING = 1e-6  # of a score: what sums of float32 in another order differ by, and more
# Points a document in the first request of a search: of long ones the best passages come first. With all of
# theirs, 80 each, a search of 100 documents reads 8,000 points.
_POINTS = 8
_FILTERED = 4  # times as many are asked for, where a filter is on another collection


@dataclass(frozen=True, slots=True)
class Search:
    """What the best documents are wanted of: stages for a number of points, of which the last ranks.

    So many documents with these fields.
    """

    plan: Plan
    depth: int
    fields: frozenset[Field]
    options: SearchOptions

    @property
    def wanted(self) -> int:
        """The number of documents to find, including those that the offset skips."""
        return self.depth + (self.options.offset or 0)

    def request(
        self, pools: Pools, points: int, limit: int | None = None, options: SearchOptions | None = None
    ) -> models.QueryRequest:
        """A request by stages for so many points, of which `limit` come back; with other options."""
        chosen = self.options if options is None else options
        return pools.request(self.plan(points), points if limit is None else limit, self.fields, chosen)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        records: the points of the best documents, best first.
        every: all points that came back, best first: where documents are split, of further documents, too.
    """

    records: list[Record]
    every: list[Record]


def best_candidates(pools: Pools, search: Search, name: str | None = None) -> Candidates:
    """The best documents of a search, with their score under a name; that of `Pools.near` where None."""
    (best,) = best_points(pools, search)
    answers = pools.answered(pools.parts(best.records, search.fields))
    records = pools.whole(best.records, search.fields, answers)
    score = pools.layout.score if name is None else name
    values = pools.layout.nearness(records) if name is None else scores_of(records)
    return pools.candidates_of(records, search.fields, {score: values}, answers)


def best_points(pools: Pools, *searches: Search) -> list[Found]:
    """The points of the best documents of each search; what all of them ask is one request.

    A filter never reaches what is beside a collection: these searches take requests of their own.
    """
    apart = [s.options.filter is not None and is_beside(s.plan(1)[0].using) for s in searches]
    together = [search for search, is_apart in zip(searches, apart, strict=True) if not is_apart]
    if pools.splits:
        results = iter(_best_of_split(pools, together))
    else:
        # A stage must also pass on what is skipped.
        requests = [search.request(pools, search.wanted, search.depth) for search in together]
        results = iter([Found(records, records) for records in map(settled, pools.ask(requests))])
    return [
        _filtered(pools, search) if is_apart else next(results)
        for search, is_apart in zip(searches, apart, strict=True)
    ]


def _best_of_split(pools: Pools, searches: Sequence[Search]) -> list[Found]:
    """The points of the best documents of each search; the offset counts documents."""
    points, every = _points_of(pools, searches)
    kept = [
        _documents_of(pools, records)[search.options.offset or 0 : search.wanted]
        for search, records in zip(searches, points, strict=True)
    ]
    passages = pools.options.passages if pools.options is not None else None
    if passages is not None and passages.best > 1:
        # Every passage of these documents with its score, for means that do not depend on the pool.
        narrowed = {
            str(i): (_narrowed(pools, search, kept[i]), len(kept[i])) for i, search in enumerate(searches)
        }
        points = list(pools.every(narrowed).values())
    chosen = [frozenset(keys) for keys in kept]
    return [
        Found([record for record in points[i] if pools.key(record) in keys], every[i])
        for i, keys in enumerate(chosen)
    ]


def _points_of(pools: Pools, searches: Sequence[Search]) -> tuple[list[list[Record]], list[list[Record]]]:
    """Return points of enough documents for each search, best first, and those of its first request.

    Where these are of too few documents, the next request is for points of others.
    """
    options = [replace(search.options, offset=None) for search in searches]
    limits = {i: int(s.wanted * min(pools.density, _POINTS)) + 1 for i, s in enumerate(searches)}
    points: list[list[Record]] = [[] for _ in searches]
    firsts: list[list[Record]] = []
    each = _POINTS
    while limits:
        requests = [searches[i].request(pools, limit, options=options[i]) for i, limit in limits.items()]
        answers = dict(zip(limits, pools.ask(requests), strict=True))
        firsts = firsts or list(answers.values())
        waiting = [i for i, records in answers.items() if len(records) >= limits[i]]
        limits, each = {}, 2 * each  # one document may have most of the points
        for i, records in answers.items():
            points[i] = settled(sorted([*points[i], *records], key=lambda record: -record.score))
            keys = _documents_of(pools, points[i])
            missing = searches[i].wanted - len(keys)
            if i in waiting and missing > 0:
                others = models.Filter(must_not=[pools.among(keys)])
                options[i] = replace(searches[i].options, offset=None).among(others)
                limits[i] = missing * each + 1
    return points, firsts


def _narrowed(pools: Pools, search: Search, keys: Sequence[str]) -> Asked:
    """Return a search as a request that finds only points of some documents."""
    options = replace(search.options.among(pools.among(keys)), score_threshold=None, offset=None)
    return lambda limit: search.request(pools, limit, options=options)


def _filtered(pools: Pools, search: Search) -> Found:
    """The best points of a search beside, that the filter on the collection lets through."""
    options, limit, skipped = search.options, _FILTERED * search.depth, search.options.offset or 0
    assert options.filter is not None
    unfiltered = replace(options, filter=None, offset=None)
    while True:
        (records,) = pools.ask([search.request(pools, limit, options=unfiltered)])
        among = models.Filter(must=[having_ids([record.id for record in records]), options.filter])
        pages = pools.points.scroll((), batch=max(len(records), 1), condition=among) if records else ()
        allowed = {record.id for page in pages for record in page}
        kept = [record for record in records if record.id in allowed]
        if len(kept) >= search.wanted or len(records) < limit:
            return Found(kept[skipped : search.wanted], records)
        limit *= _FILTERED


def _documents_of(pools: Pools, records: Iterable[Record]) -> list[str]:
    """The keys of points' documents, in their order."""
    return list(dict.fromkeys(map(pools.key, records)))


def once(requests: Mapping[str, models.QueryRequest]) -> dict[str, tuple[Asked, int]]:
    """Requests that know how many points they want, for `Pools.every`."""

    def always(request: models.QueryRequest) -> Asked:
        return lambda limit: request

    return {name: (always(query), query.limit or 1) for name, query in requests.items()}


def scores_of(records: Sequence[Record]) -> Float64Array:
    """(n,) what a search gave its points."""
    return np.array([record.score for record in records], np.float64)


def settled(records: Sequence[Record]) -> list[Record]:
    """The points of a search, best first, of which those whose scores differ by rounding go by their ids.

    Qdrant adds the weights of words in the order of its segments, so equals of one index differ by some
    1e-7 in another of the same documents.
    """
    ordered: list[Record] = []
    equals: list[Record] = []
    for record in records:
        if equals and equals[-1].score - record.score > _ROUNDING * abs(record.score):
            ordered += sorted(equals, key=lambda equal: equal.id)
            equals = []
        equals.append(record)
    return ordered + sorted(equals, key=lambda equal: equal.id)


def scored(answers: Sequence[Record], points: Sequence[Record]) -> list[Record]:
    """Return the points that have an answer, with its payload and vectors and with the point's score."""
    by_id = {record.id: record for record in answers}
    return [replace(by_id[point.id], score=point.score) for point in points if point.id in by_id]


def inclusion_of(
    question: InclusionQuestion, pools: Pools, records: Sequence[Record], keys: Sequence[str]
) -> tuple[Asked, int]:
    """A request for inclusion in these points and all points of these documents, for `Pools.every`."""
    wanted = having_ids([record.id for record in records])
    if keys:
        wanted = models.Filter(should=[wanted, pools.among(keys)])
    return (lambda limit: pools.inclusion(question, wanted, limit)), len(records) + len(keys)


def in_order(records: Sequence[Record], keys: Sequence[str], pools: Pools) -> list[Record]:
    """The points of some documents, in the order of the keys and of the passages."""
    place = {key: i for i, key in enumerate(keys)}
    points = [record for record in records if pools.key(record) in place]
    return sorted(
        points, key=lambda r: (place[pools.key(r)], r.payload.get(NUMBER, 0) if pools.splits else 0)
    )
