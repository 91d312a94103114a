"""Candidates of a foreign collection, and of what was added beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qdrant_client import models

from surprise_rerank._candidates import Candidates, Field
from surprise_rerank.connectors.attached._enrichment import Enrichment, behind
from surprise_rerank.connectors.attached._layouts import one_id, point_of
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine, PayloadChoice
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_COUNT, TOKEN_SHAPE
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout, haystack_point
from surprise_rerank.connectors.qdrant._schema import BESIDE, HASH, PointId, Record, given_point_id
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.pools import Found, Pools, Search, not_stored
from surprise_rerank.connectors.qdrant._search.queries import (
    InclusionQuestion,
    SearchOptions,
    Stage,
    request,
)
from surprise_rerank.core.arrays import Float64Array

_ABSENT = {TOKEN_COUNT: 0, TOKEN_SHAPE: ""}
_FILTERED = 4  # times as many are asked for, where a filter is on another collection


class ForeignPools(Pools):
    """Makes candidate pools of a foreign collection; a key is the id of a point.

    Args:
        points: of the collection.
        layout: the vectors: the collection's, and those that were added where they are read.
        payloads: how points become documents.
        enriched: what was added.
    """

    def __init__(
        self, points: ClientEngine, layout: VectorLayout, payloads: PayloadLayout, enriched: Enrichment
    ) -> None:
        self.points, self.layout, self.payloads, self.enriched = points, layout, payloads, enriched
        self.where, self.reads_added = points.where, layout.tokens == BESIDE.tokens
        self.marks = (HASH,) if self.reads_added else ()

    def ask(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds: in one request, two where some are beside."""
        results: list[list[Record]] = [[] for _ in requests]
        beside = [self._is_beside(request) for request in requests]
        for engine, which in ((self.points, False), (self.enriched.points, True)):
            chosen = [i for i, is_beside in enumerate(beside) if is_beside == which]
            if chosen:
                answers = engine.query_batch([requests[i] for i in chosen])
                for i, answer in zip(chosen, answers, strict=True):
                    results[i] = answer
        return results

    def best(self, *searches: Search) -> list[Found]:
        """The points of the best documents of each search; a filter never reaches what is beside."""
        filtered = [
            search for search in searches if search.options.filter is not None and self._is_apart(search)
        ]
        others = [search for search in searches if search not in filtered]
        results = dict(zip(map(id, others), super().best(*others) if others else (), strict=True))
        results |= {id(search): self._filtered(search) for search in filtered}
        return [results[id(search)] for search in searches]

    def prepared(self, options: SearchOptions) -> SearchOptions:
        """Return the options as they are; there are no tenants."""
        return options

    def request(
        self, stages: Sequence[Stage], limit: int, search: Search, options: SearchOptions
    ) -> models.QueryRequest:
        """A request for points of a search; what was added has no payload of documents."""
        if self._is_apart(search):
            return request(stages, limit, (), search.vectors, self.prepared(options))
        return super().request(stages, limit, search, options)

    def key(self, record: Record) -> str:
        """The id of the point."""
        return record.id

    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id; see `Corpus.fetch`."""
        points = self.points_of(ids)
        records = self._retrieved([point for point in points.values() if point is not None], fields)
        stored = {name: records[str(point)] for name, point in points.items() if str(point) in records}
        missing = [name for name in ids if name not in stored]
        if missing and not skip_missing:
            raise not_stored(self.where, missing)
        # Under the names that were asked for: a UUID can be written in several ways.
        names = [name for name in ids if name in stored]
        return self._asked_for([stored[name] for name in names], names, fields)

    def of_points(self, points: Sequence[PointId], fields: frozenset[Field]) -> Candidates:
        """The documents of those of these points that are there."""
        by_point = self._retrieved(points, fields)
        records = [by_point[str(point)] for point in points if str(point) in by_point]
        names = [self.payloads.document_id(record.id, record.payload) for record in records]
        return self._asked_for(records, names, fields)

    def _retrieved(self, points: Sequence[PointId], fields: frozenset[Field]) -> dict[str, Record]:
        records = self.points.retrieve(points, self.payload_of(fields), self.vectors_of(fields))
        return {record.id: record for record in records}

    def _asked_for(
        self, records: Sequence[Record], names: Sequence[str], fields: frozenset[Field]
    ) -> Candidates:
        answers = self.answered(self.parts(records, fields))
        whole = {record.id for record in self.whole(records, fields, answers)}
        kept = [i for i, record in enumerate(records) if record.id in whole]
        return self.candidates_of([records[i] for i in kept], fields, {}, answers, [names[i] for i in kept])

    def names(self, records: Sequence[Record]) -> dict[str, str]:
        """Return point -> the id of its document, for the points that exist."""
        points = [given_point_id(record.id) for record in records]
        stored = self.points.retrieve(points, self.payloads.id_fields)
        return {record.id: self.payloads.document_id(record.id, record.payload) for record in stored}

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document's id -> its point, where it has one."""
        return {name: str(point) for name, point in self.points_of(ids).items() if point is not None}

    def among(self, keys: Sequence[str]) -> models.Filter:
        """A filter for these points."""
        return models.Filter(must=[models.HasIdCondition(has_id=[given_point_id(key) for key in keys])])

    def is_apart(self, vector: str) -> bool:
        """Whether a vector was added beside the collection."""
        return vector in (BESIDE.words, BESIDE.tokens)

    def parts(self, records: Sequence[Record], fields: frozenset[Field]) -> dict[str, models.QueryRequest]:
        """Return the request for the vectors that were added to these points."""
        if not records or "tokens" not in fields or not self.reads_added:
            return {}
        return {"added": self.enriched.request([given_point_id(record.id) for record in records])}

    def whole(
        self, records: Sequence[Record], fields: frozenset[Field], answers: Mapping[str, Sequence[Record]]
    ) -> list[Record]:
        """Return the points that have a dense vector, where that is asked for."""
        layout = self.layout
        if "dense" not in fields or not layout.has_dense:
            return list(records)
        return [record for record in records if record.vectors.get(layout.dense) is not None]

    def candidates_of(
        self,
        records: Sequence[Record],
        fields: frozenset[Field],
        scores: Mapping[str, Float64Array],
        answers: Mapping[str, Sequence[Record]],
        names: Sequence[str] | None = None,
    ) -> Candidates:
        """Make candidates of points; see `Pools.candidates_of`.

        Ids are given where documents were asked for by them; several points of one id are refused otherwise.
        """
        if names is None:
            names = [self.payloads.document_id(record.id, record.payload) for record in records]
            if self.payloads.id and len(set(names)) < len(names):
                raise one_id(self.where, self.payloads.id, names)
        layout, points = self.layout, [record.id for record in records]
        pool = Candidates(ids=tuple(names), scores=scores)
        if "documents" in fields:
            documents = (self.payloads.document(record.id, record.payload) for record in records)
            pool = replace(pool, documents=tuple(documents))
        added = answers.get("added", ())
        if "added" in answers:
            pool = replace(pool, notes=behind(points, pool.documents, added))
        if "dense" in fields and layout.has_dense:
            pool = replace(pool, dense=layout.dense_of(records)[0])
        if "tokens" in fields:
            stored = records
            if self.reads_added:  # none where a point lacks them
                by_point = {record.id: record for record in added if BESIDE.tokens in record.vectors}
                stored = [by_point.get(point) or Record(point, _ABSENT, {}) for point in points]
            pool = replace(pool, tokens=layout.tokens_of(stored))
        return pool

    def included(
        self, pool: Candidates, points: Sequence[str], question: InclusionQuestion, records: Sequence[Record]
    ) -> Candidates:
        """Candidates with what was found by `inclusion`, and a note where that is of earlier texts."""
        pool = super().included(pool, points, question, records)
        if not self.reads_added:
            return pool
        notes = (*pool.notes, *behind(points, pool.documents, records))
        return replace(pool, notes=tuple(dict.fromkeys(notes)))

    def still_stored(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates whose documents were not deleted meanwhile, and their points."""
        points = self.points_of(pool.ids)
        kept = {i: point for i, name in enumerate(pool.ids) if (point := points[name]) is not None}
        return pool.take(list(kept)), list(kept.values())

    def points_of(self, ids: Sequence[str]) -> dict[str, PointId | None]:
        """The point of each document; None for what can be no document's id, or is none that is there."""
        if self.payloads.hashed_ids:
            return {name: haystack_point(name) for name in ids}
        if not self.payloads.id:
            return {name: point_of(name) for name in ids}
        pages = self.points.scroll(self.payloads.id_fields, condition=self.payloads.having(ids))
        points: dict[str, PointId] = {
            self.payloads.document_id(record.id, record.payload): given_point_id(record.id)
            for page in (pages if ids else ())
            for record in page
        }
        return {name: points.get(name) for name in ids}

    def payload_of(self, fields: frozenset[Field]) -> PayloadChoice:
        """What to fetch of points' payloads for candidates with these fields."""
        return None if "documents" in fields else self.payloads.id_fields

    def _is_apart(self, search: Search) -> bool:
        return self.is_apart(search.plan(1)[0].using or "")

    def _is_beside(self, request: models.QueryRequest) -> bool:
        vectors = request.with_vector if isinstance(request.with_vector, list) else ()
        return any(self.is_apart(name) for name in (request.using or "", *vectors))

    def _filtered(self, search: Search) -> Found:
        """The best points of a search beside, that the filter on the collection lets through."""
        options, limit, skipped = search.options, _FILTERED * search.depth, search.options.offset or 0
        assert options.filter is not None
        unfiltered = replace(options, filter=None, offset=None)
        while True:
            ((records),) = self.ask([self.request(search.plan(limit), limit, search, unfiltered)])
            ids = models.HasIdCondition(has_id=[given_point_id(record.id) for record in records])
            narrowed = models.Filter(must=[ids, options.filter])
            pages = self.points.scroll((), batch=max(len(records), 1), condition=narrowed) if records else ()
            allowed = {record.id for page in pages for record in page}
            kept = [record for record in records if record.id in allowed]
            if len(kept) >= search.wanted or len(records) < limit:
                return Found(kept[skipped : search.wanted], records)
            limit *= _FILTERED
