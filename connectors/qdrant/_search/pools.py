"""From requests to candidates, whoever has made the collection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from qdrant_client import models

from surprise_rerank._candidates import Candidates, Field, Query, Unit
from surprise_rerank._errors import DataError, NotStoredError
from surprise_rerank.connectors.qdrant._engines.client import PayloadChoice, payload_selector
from surprise_rerank.connectors.qdrant._multivectors import query_vectors
from surprise_rerank.connectors.qdrant._schema import NUMBER, PointId, Record, given_point_id
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.queries import (
    InclusionQuestion,
    SearchOptions,
    Stage,
    maxsim_stage,
    nearest,
    request,
)
from surprise_rerank.core.arrays import Float32Array, Float64Array

# Stages for a number of points.
Plan: TypeAlias = Callable[[int], Sequence[Stage]]
# A request for a number of points.
Asked: TypeAlias = Callable[[int], models.QueryRequest]

# Times as many points are asked for as documents have on average, where all of theirs are wanted.
_MORE = 2
_ROUNDING = 1e-6  # of a score: what sums of float32 in another order differ by, and more


@dataclass(frozen=True, slots=True)
class Search:
    """What the best documents are wanted of: stages for a number of points, of which the last ranks.

    So many documents with these fields, and with these vectors by name.
    """

    plan: Plan
    depth: int
    fields: frozenset[Field]
    options: SearchOptions
    vectors: Sequence[str] = ()

    @property
    def wanted(self) -> int:
        """The number of documents to find, including those that the offset skips."""
        return self.depth + (self.options.offset or 0)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        records: the points of the best documents, best first.
        every: all points that came back, best first: where documents are split, of further documents, too.
    """

    records: list[Record]
    every: list[Record]


class Pools(ABC):
    """Makes candidate pools of one collection.

    Here a document is a point. A key stands for a document until it is known whether it is still there.
    """

    unit: Unit = "document"  # what a line of a ranking of its candidates is
    where: str  # the place, for messages
    layout: VectorLayout  # the vectors, and how they are compared
    marks: tuple[str, ...] = ()  # payload keys that tell which text the stored tokens are of

    @property
    def splits(self) -> bool:
        """Whether a document may have several points."""
        return False

    @property
    def density(self) -> float:
        """Points per document, about."""
        return 1.0

    @abstractmethod
    def ask(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, in one request."""

    @abstractmethod
    def payload_of(self, fields: frozenset[Field]) -> PayloadChoice:
        """What to fetch of points' payloads for candidates with these fields."""

    def vectors_of(self, fields: frozenset[Field]) -> tuple[str, ...]:
        """Names of the documents' vectors that fields are made of; a DataError if none are stored."""
        layout = self.layout
        if "tokens" in fields and layout.tokens is None:
            raise DataError(
                f"{self.where} has no token vectors; store them (rebuild an index with the setting tokens, "
                "enrich another collection), or choose a system that needs none (cosine, bm25)"
            )
        wanted = {"dense": layout.dense if layout.has_dense else None, "tokens": layout.tokens}
        names = [name for field, name in wanted.items() if field in fields and name is not None]
        return tuple(name for name in names if not self.is_apart(name))

    @abstractmethod
    def prepared(self, options: SearchOptions) -> SearchOptions:
        """Return options as Qdrant takes them; a DataError if there is no such tenant."""

    def request(
        self, stages: Sequence[Stage], limit: int, search: Search, options: SearchOptions
    ) -> models.QueryRequest:
        """A request for a number of points of a search, with stages and options in place of its own."""
        vectors = tuple(dict.fromkeys((*self.vectors_of(search.fields), *search.vectors)))
        query = request(stages, limit, (), vectors, self.prepared(options))
        return query.model_copy(update={"with_payload": payload_selector(self.payload_of(search.fields))})

    @abstractmethod
    def key(self, record: Record) -> str:
        """What stands for the document of a point."""

    @abstractmethod
    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id; see `Corpus.fetch`."""

    @abstractmethod
    def names(self, records: Sequence[Record]) -> dict[str, str]:
        """Key -> the document's id, of those of these points that are there."""

    @abstractmethod
    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document's id -> its key, where it has one."""

    @abstractmethod
    def still_stored(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates that are not known to be deleted, and their points."""

    @abstractmethod
    def among(self, keys: Sequence[str]) -> models.Filter:
        """A filter for all points of these documents."""

    def these(self, records: Sequence[Record]) -> models.Filter:
        """A filter for these points."""
        points = models.HasIdCondition(has_id=[given_point_id(record.id) for record in records])
        return models.Filter(must=[points])

    def near_vectors(self, query: Query) -> Float32Array:
        """Return the vectors that `near` takes: (d,) dense, or (m, d) tokens where there are no others."""
        return query.require_dense() if self.layout.has_dense else query_vectors(query.require_tokens())

    def near(self, dense: Float32Array, limit: int) -> Stage:
        """The nearest as the collection compares its vectors."""
        layout = self.layout
        if not layout.has_dense:
            return maxsim_stage(dense, layout.dense, limit)
        return Stage(nearest(dense), layout.using, f"{layout.score} of dense vectors", limit)

    def nearness(self, records: Sequence[Record]) -> tuple[str, Float64Array]:
        """What the scores of `near` are called, and (n,) those of points, higher for nearer."""
        return self.layout.score, self.layout.nearness(records)

    def nearness_of(
        self, dense: Float32Array, points: models.Filter, count: int, options: SearchOptions
    ) -> tuple[Asked, int]:
        """A request for `nearness` to a (d,) vector of what a filter lets through, for `every`.

        The filter is for points of `count` documents; the options are of the search that found them.
        """
        narrowed = replace(options, filter=points, offset=None, score_threshold=None)
        chosen = self.prepared(narrowed)
        return (lambda limit: request([self.near(dense, limit)], limit, (), (), chosen)), count

    def is_apart(self, vector: str) -> bool:
        """Whether a vector is in another collection than the documents."""
        return False

    def of_documents(self, keys: Sequence[str], fields: frozenset[Field]) -> tuple[Asked, int]:
        """A request for all points of some documents with these fields, for `every`."""
        return self._reading(self.among(keys), fields), len(keys)

    def fields_of(self, records: Sequence[Record], fields: frozenset[Field]) -> tuple[Asked, int]:
        """A request for these points with these fields, for `every`."""
        return self._reading(self.these(records), fields), len(records)

    def _reading(self, condition: models.Filter, fields: frozenset[Field]) -> Asked:
        """A request for all points that a filter lets through, with these fields."""
        query = models.QueryRequest(
            filter=condition,
            with_payload=payload_selector(self.payload_of(fields)),
            with_vector=list(self.vectors_of(fields)) or False,
        )
        return lambda limit: query.model_copy(update={"limit": limit})

    @abstractmethod
    def parts(self, records: Sequence[Record], fields: frozenset[Field]) -> dict[str, models.QueryRequest]:
        """Return requests for what candidates of these points need of other points."""

    @abstractmethod
    def whole(
        self, records: Sequence[Record], fields: frozenset[Field], answers: Mapping[str, Sequence[Record]]
    ) -> list[Record]:
        """Return the points whose document was not deleted between two requests."""

    @abstractmethod
    def candidates_of(
        self,
        records: Sequence[Record],
        fields: frozenset[Field],
        scores: Mapping[str, Float64Array],
        answers: Mapping[str, Sequence[Record]],
    ) -> Candidates:
        """Make candidates of points.

        Args:
            records: n points that are `whole`.
            fields: what the candidates have.
            scores: name -> (n,) scores of the points.
            answers: to the requests of `parts`.
        """

    def inclusion(
        self, question: InclusionQuestion, wanted: models.Filter, limit: int
    ) -> models.QueryRequest:
        """A request for inclusion of a question's tokens in points that a filter lets through."""
        counts = self.layout.token_fields[:1]
        return question.among(wanted, limit, self.layout.tokens or "", (*counts, *self.marks))

    def included(
        self, pool: Candidates, points: Sequence[str], question: InclusionQuestion, records: Sequence[Record]
    ) -> Candidates:
        """Candidates, which are n points, with what was found by `inclusion`."""
        count = next(iter(self.layout.token_fields), None)
        return replace(pool, inclusion=question.inclusion(records, points, count))

    def run(self, search: Search, name: str | None = None) -> Candidates:
        """The best documents of a search, with their score under a name; that of `near` where None."""
        (best,) = self.best(search)
        answers = self.answered(self.parts(best.records, search.fields))
        records = self.whole(best.records, search.fields, answers)
        score, values = self.nearness(records) if name is None else (name, scores_of(records))
        return self.candidates_of(records, search.fields, {score: values}, answers)

    def best(self, *searches: Search) -> list[Found]:
        """The points of the best documents of each search; what all of them ask is one request."""
        # A stage must also pass on what is skipped.
        requests = [self.request(s.plan(s.wanted), s.depth, s, s.options) for s in searches]
        return [Found(records, records) for records in map(settled, self.ask(requests))]

    def every(self, requests: Mapping[str, tuple[Asked, int]]) -> dict[str, list[Record]]:
        """All points that each of several requests can find; what all of them ask is one request.

        Args:
            requests: name -> number of points -> the request, and how many documents its filter lets through.
        """
        points: dict[str, list[Record]] = {name: [] for name in requests}
        limits = {
            name: int(_MORE * documents * self.density) + 1
            for name, (_, documents) in requests.items()
            if documents
        }
        while limits:
            answers = self.ask([requests[name][0](limit) for name, limit in limits.items()])
            points |= zip(limits, answers, strict=True)
            limits = {name: 4 * limit for name, limit in limits.items() if len(points[name]) >= limit}
        return points

    def answered(self, requests: Mapping[str, models.QueryRequest]) -> dict[str, list[Record]]:
        """Name -> the points that a request finds; all of them are one request."""
        return dict(zip(requests, self.ask(list(requests.values())), strict=True))


def not_stored(where: str, missing: Sequence[str], whose: str = "") -> NotStoredError:
    """The error for documents that are wanted by ids, and that a collection does not have."""
    return NotStoredError(
        f"{len(missing)} documents are not in {where}, such as {missing[0]!r}{whose}; sync it, or skip them: "
        "they may have been deleted meanwhile"
    )


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
    wanted = pools.these(records)
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
