"""From points to candidates: the documents of a collection, whoever has made it.

What a collection is, is data: its vectors (`VectorLayout`), the keys of its payloads (`PayloadLayout`), the
options of an index of ours, and what was added beside somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Unit
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError, NotStoredError
from surprise_rerank.connectors.qdrant._engines import Engine
from surprise_rerank.connectors.qdrant._engines.client import payload_selector
from surprise_rerank.connectors.qdrant._manifest import IndexOptions
from surprise_rerank.connectors.qdrant._multivectors import (
    TOKEN_COUNT,
    TOKEN_FIELDS,
    TOKEN_SHAPE,
    query_vectors,
)
from surprise_rerank.connectors.qdrant._payloads import (
    PayloadLayout,
    haystack_point,
    point_named,
    shared_id,
)
from surprise_rerank.connectors.qdrant._schema import (
    ALL,
    BESIDE,
    HASH,
    ID,
    PASSAGES,
    PayloadFields,
    PointId,
    Record,
    document_key,
    given_point_id,
)
from surprise_rerank.connectors.qdrant._search.beside import added_to, is_beside, out_of_date
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.queries import (
    NO_OPTIONS,
    InclusionQuestion,
    SearchOptions,
    Stage,
    by_id,
    having_ids,
    maxsim_stage,
    nearest,
    request,
    rescored,
)
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.core.arrays import Float32Array, Float64Array

# A request for a number of points.
Asked: TypeAlias = Callable[[int], models.QueryRequest]

# Times as many points are asked for as documents have on average, where all of theirs are wanted.
_MORE = 2
_LOOKED_UP = 1000  # documents in a request
_ABSENT = {TOKEN_COUNT: 0, TOKEN_SHAPE: ""}  # of a point that nothing was added for


@dataclass(frozen=True, eq=False)
class Pools:
    """Makes candidate pools of one collection, or of one tenant's documents in an index.

    A document is known by its key: its id, with its tenant where an index has tenants; in somebody else's
    collection the id of its point. Where the unit is a passage, each point is a candidate, and depths count
    them. Ids are still those of documents, and `keys` and `fetch` are of whole documents; what a search has
    found is known by its point.
    """

    points: Engine
    where: str  # the place, for messages
    layout: VectorLayout  # the vectors, and how they are compared
    payloads: PayloadLayout  # how points become documents
    options: IndexOptions | None = None  # that an index of ours was made with
    added: Engine | None = None  # what was added beside somebody else's collection
    density: float = 1.0  # points per document, about
    # Whose documents they are; the empty string for documents without a tenant. Those of `ALL` are named by
    # their keys. Where None, an index with tenants reads documents by their keys, and is not searched.
    tenant: str | None = None
    unit: Unit = "document"  # what a line of a ranking of its candidates is

    @classmethod
    def of_index(
        cls, storage: Storage, density: float = 1.0, tenant: str | None = None, unit: Unit = "document"
    ) -> Pools:
        """Return the pools of an index of ours."""
        layout, options = VectorLayout.of(storage.manifest), storage.manifest.options
        return cls(
            storage.engine,
            storage.where,
            layout,
            options.payloads,
            options,
            density=density if unit == "document" else 1.0,
            tenant=tenant,
            unit=unit,
        )

    # What a request asks for.

    @property
    def splits(self) -> bool:
        """Whether a document may have several points."""
        return self.unit == "document" and bool(self.payloads.passage)

    @property
    def reads_added(self) -> bool:
        """Whether the token vectors are those that were added beside the collection."""
        return self.layout.tokens == BESIDE.tokens

    def payload_of(self, fields: frozenset[Field]) -> PayloadFields:
        """What to fetch of points' payloads for candidates with these fields."""
        payloads, has_texts = self.payloads, "documents" in fields
        if self.options is None:
            return None if has_texts else payloads.id_fields
        names = payloads.document_fields() if has_texts else payloads.id_fields
        tokens = TOKEN_FIELDS if "tokens" in fields else ()
        return tuple(dict.fromkeys((*names, payloads.key, *payloads.passage, *tokens)))

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
        return tuple(name for name in names if not is_beside(name))

    def prepared(self, options: SearchOptions) -> SearchOptions:
        """With the tenant as a part of the filter, and what quantised vectors found rescored."""
        if self.options is None:
            return options
        if self.tenant is not None:
            options = options.among(self.options.tenant_filter(self.tenant))
        return rescored(options, self.options.quantization)

    def require_tenant(self) -> None:
        """Refuse, by a DataError, to look through an index with tenants for nobody's sake."""
        if self.tenant is None and self.options is not None and self.options.tenant is not None:
            raise DataError(
                "the index has tenants, and none is named; give "
                f"tenant= (--tenant NAME), '' for those of no tenant, {ALL!r} for those of all"
            )

    def request(
        self,
        stages: Sequence[Stage],
        limit: int,
        fields: frozenset[Field],
        options: SearchOptions,
    ) -> models.QueryRequest:
        """A request for a number of points with these fields.

        Raises:
            DataError: if nobody said whose they are, in an index with tenants.
        """
        self.require_tenant()
        if is_beside(stages[0].using):  # which has no payload of documents
            return request(stages, limit, (), (), options)
        query = request(stages, limit, (), self.vectors_of(fields), self.prepared(options))
        return query.model_copy(update={"with_payload": payload_selector(self.payload_of(fields))})

    def near_vectors(self, query: Query) -> Float32Array:
        """Return the vectors that `near` takes: (d,) dense, or (m, d) tokens where there are no others."""
        return query.require_dense() if self.layout.has_dense else query_vectors(query.require_tokens())

    def near(self, dense: Float32Array, limit: int) -> Stage:
        """The nearest as the collection compares its vectors."""
        layout = self.layout
        if not layout.has_dense:
            return maxsim_stage(dense, layout.dense, limit)
        return Stage(nearest(dense), layout.using, f"{layout.score} of dense vectors", limit)

    def nearness_of(
        self, dense: Float32Array, points: models.Filter, count: int, options: SearchOptions
    ) -> tuple[Asked, int]:
        """A request for `VectorLayout.nearness` to a (d,) vector of what a filter lets through, for `every`.

        The filter is for points of `count` documents; the options are of the search that found them.
        """
        narrowed = replace(options, filter=points, offset=None, score_threshold=None)
        chosen = self.prepared(narrowed)
        return (lambda limit: request([self.near(dense, limit)], limit, (), (), chosen)), count

    def of_documents(self, keys: Sequence[str], fields: frozenset[Field]) -> tuple[Asked, int]:
        """A request for all points of some documents with these fields, for `every`."""
        return self._reading(self.among(keys), fields), len(keys)

    def fields_of(self, records: Sequence[Record], fields: frozenset[Field]) -> tuple[Asked, int]:
        """A request for these points with these fields, for `every`."""
        return self._reading(having_ids([record.id for record in records]), fields), len(records)

    def _reading(self, condition: models.Filter, fields: frozenset[Field]) -> Asked:
        """A request for all points that a filter lets through, with these fields."""
        query = models.QueryRequest(
            filter=condition,
            with_payload=payload_selector(self.payload_of(fields)),
            with_vector=list(self.vectors_of(fields)) or False,
        )
        return lambda limit: query.model_copy(update={"limit": limit})

    def inclusion(
        self, question: InclusionQuestion, wanted: models.Filter, limit: int
    ) -> models.QueryRequest:
        """A request for inclusion of a question's tokens in points that a filter lets through."""
        marks = (HASH,) if self.reads_added else ()  # which tells what text they are of
        counts = self.layout.token_fields[:1]
        return question.among(wanted, limit, self.layout.tokens or "", (*counts, *marks))

    # Answers.

    def ask(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds: in one request, two where some are beside."""
        answers: list[list[Record]] = [[] for _ in requests]
        for engine, wanted in ((self.points, False), (self.added, True)):
            chosen = [i for i, query in enumerate(requests) if _asks_beside(query) == wanted]
            if chosen and engine is not None:
                points = engine.query_batch([requests[i] for i in chosen])
                for i, records in zip(chosen, points, strict=True):
                    answers[i] = records
        return answers

    def answered(self, requests: Mapping[str, models.QueryRequest]) -> dict[str, list[Record]]:
        """Name -> the points that a request finds; all of them are one request."""
        return dict(zip(requests, self.ask(list(requests.values())), strict=True))

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

    # Keys, ids and points.

    def key(self, record: Record) -> str:
        """What the document of a point is known by; the id of the point of a passage."""
        return self._document_key(record) if self.unit == "document" else record.id

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document's id -> its key, where it has one."""
        payloads = self.payloads
        if payloads.key:
            tenant = None if self._is_of_all else self.tenant
            return {name: encodable(document_key(name, tenant)) for name in ids}
        if payloads.hashed_ids:
            return {name: haystack_point(name) for name in ids}
        if not payloads.id:
            return {name: point for name in ids if (point := point_named(name)) is not None}
        pages = self.points.scroll(payloads.id_fields, condition=payloads.having(ids)) if ids else ()
        points = {payloads.document_id(r.id, r.payload): r.id for page in pages for r in page}
        # A point with a list of ids matches, too, and is no document of one of them.
        return {name: points[name] for name in ids if name in points}

    def names(self, records: Sequence[Record]) -> dict[str, str]:
        """Key -> the document's id, of those of these points that are there."""
        if self.options is None:  # what was added has no payload of documents
            stored = self._retrieve(
                [given_point_id(record.id) for record in records], self.payloads.id_fields
            )
            records = list(stored.values())
        return dict(zip(map(self.key, records), self._ids(records), strict=True))

    def among(self, keys: Sequence[str]) -> models.Filter:
        """A filter for all points of these documents, or for the points of these passages."""
        if self.unit == "passage" or not self.payloads.key:
            return having_ids(keys)
        of_these = models.FieldCondition(key=self.payloads.key, match=models.MatchAny(any=list(keys)))
        return models.Filter(must=[of_these])

    def still_stored(self, pool: Candidates) -> tuple[Candidates, list[str]]:
        """The candidates that are not known to be deleted, and their points."""
        keys = self.keys(pool.ids)
        numbers = [0] * len(pool) if pool.passages is None else [passage.number for passage in pool.passages]
        kept = [i for i, name in enumerate(pool.ids) if name in keys]
        points = [str(self.payloads.form.point_id(keys[pool.ids[i]], numbers[i])) for i in kept]
        return (pool if len(kept) == len(pool) else pool.take(kept)), points

    @property
    def _is_of_all(self) -> bool:
        return self.tenant in (None, ALL)

    def _ids(self, records: Sequence[Record]) -> list[str]:
        """The ids of points' documents, among those of these pools."""
        if self.options is not None:
            field = self.payloads.key if self._is_of_all else ID
            return [record.payload[field] for record in records]
        return [self.payloads.document_id(record.id, record.payload) for record in records]

    # Documents by id.

    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id, in this order; see `Corpus.fetch`."""
        payload, is_split = self.payload_of(fields), bool(self.payloads.passage)
        counted = (*payload, PASSAGES) if is_split and payload is not None else payload
        # Under the names that were asked for: a UUID can be written in several ways.
        keys = self.keys(ids)
        firsts = {name: self.payloads.form.point_id(key) for name, key in keys.items()}
        stored = self._retrieve(list(firsts.values()), counted, fields)
        firsts = {name: point for name, point in firsts.items() if str(point) in stored}
        missing = [name for name in ids if name not in firsts]
        if missing and not skip_missing:
            raise self._not_stored(missing)
        points: list[tuple[str, PointId]] = []
        for name in (name for name in ids if name in firsts):
            points.append((name, firsts[name]))
            if is_split:
                later = range(1, stored[str(firsts[name])].payload.get(PASSAGES, 1))
                points += [(name, self.payloads.form.point_id(keys[name], number)) for number in later]
        further = [point for name, point in points if point != firsts[name]]
        stored |= self._retrieve(further, payload, fields)
        # A document that is being written lacks its last passages for a moment.
        present = [(encodable(name), stored[str(point)]) for name, point in points if str(point) in stored]
        return self._with_parts([record for _, record in present], [name for name, _ in present], fields)

    def of_points(self, points: Sequence[PointId], fields: frozenset[Field]) -> Candidates:
        """The documents of those of these points that are there."""
        stored = self._retrieve(points, self.payload_of(fields), fields)
        records = [stored[str(point)] for point in points if str(point) in stored]
        return self._with_parts(records, self._ids(records), fields)

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Documents by id, of their first points; those that are not there are left out."""
        layout = self.payloads
        names = {str(layout.form.point_id(key)): name for name, key in self.keys(ids).items()}
        records = self._retrieve(list(names), layout.document_fields())
        return {names[point]: layout.document(point, record.payload) for point, record in records.items()}

    def first_points(
        self, fields: Sequence[str], condition: models.Filter | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[Record]:
        """Return the first points of documents: of those that a filter lets through, and of these ids.

        They are read page by page.

        Raises:
            DataError: if the index has tenants and nobody says whose documents these are.
        """
        self.require_tenant()
        firsts = None if self.options is None else self.options.firsts(self.tenant)
        options = NO_OPTIONS.among(condition).among(firsts)
        conditions: Iterable[models.Filter | None] = [options.filter]
        if ids is not None:
            keys = self.keys(border.texts("ids", ids)).values()
            points = [str(self.payloads.form.point_id(key)) for key in keys]
            parts = (points[start : start + _LOOKED_UP] for start in range(0, len(points), _LOOKED_UP))
            conditions = (options.among(having_ids(part)).filter for part in parts)
        pages = chain.from_iterable(self.points.scroll(fields, condition=wanted) for wanted in conditions)
        return chain.from_iterable(pages)

    def _retrieve(
        self, points: Sequence[PointId], payload: PayloadFields, fields: frozenset[Field] = frozenset()
    ) -> dict[str, Record]:
        records = self.points.retrieve(points, payload, self.vectors_of(fields)) if points else []
        return {record.id: record for record in records}

    def _with_parts(
        self, records: Sequence[Record], names: Sequence[str], fields: frozenset[Field]
    ) -> Candidates:
        answers = self.answered(self.parts(records, fields))
        whole = {record.id for record in self.whole(records, fields, answers)}
        kept = [i for i, record in enumerate(records) if record.id in whole]
        return self.candidates_of([records[i] for i in kept], fields, {}, answers, [names[i] for i in kept])

    def _not_stored(self, missing: Sequence[str]) -> NotStoredError:
        whose = ""
        if self.options is not None and self.options.tenant is not None:
            whose = " (say tenant=)" if self._is_of_all else f" of tenant {self.tenant!r}"
        return NotStoredError(
            f"{len(missing)} documents are not in {self.where}, such as {missing[0]!r}{whose}; sync it, or "
            "skip them: they may have been deleted meanwhile"
        )

    # Candidates.

    def parts(self, records: Sequence[Record], fields: frozenset[Field]) -> dict[str, models.QueryRequest]:
        """Return requests for what candidates of these points need of other points.

        `documents` are the whole documents of passages without their first one, `added` the vectors beside.
        """
        payloads, requests = self.payloads, dict[str, models.QueryRequest]()
        if payloads.passage and "documents" in fields:
            keys, texts = (self._document_key(r) for r in records), self._texts(records)
            headless = [key for key in dict.fromkeys(keys) if key not in texts]
            if headless:
                firsts = [str(payloads.form.point_id(key)) for key in headless]
                names = self.payload_of(frozenset({"documents"}))
                requests["documents"] = by_id(firsts, names or ())
        if records and self.reads_added and "tokens" in fields:
            requests["added"] = added_to([record.id for record in records])
        return requests

    def whole(
        self, records: Sequence[Record], fields: frozenset[Field], answers: Mapping[str, Sequence[Record]]
    ) -> list[Record]:
        """Return the points whose document was not deleted between two requests.

        Where dense vectors are asked for, points without one are left out, too.
        """
        kept, payloads, layout = list(records), self.payloads, self.layout
        if payloads.passage and "documents" in fields:
            texts = self._texts([*records, *answers.get("documents", ())])
            kept = [record for record in kept if self._document_key(record) in texts]
        if "dense" in fields and layout.has_dense:
            kept = [record for record in kept if record.vectors.get(layout.dense) is not None]
        return kept

    def candidates_of(
        self,
        records: Sequence[Record],
        fields: frozenset[Field],
        scores: Mapping[str, Float64Array],
        answers: Mapping[str, Sequence[Record]],
        names: Sequence[str] | None = None,
    ) -> Candidates:
        """Make candidates of points, with whole documents where these are wanted.

        Args:
            records: n points that are `whole`.
            fields: what the candidates have.
            scores: name -> (n,) scores of the points.
            answers: to the requests of `parts`.
            names: n ids, where documents were asked for by them; a DataError otherwise if points share one.
        """
        layout, payloads = self.layout, self.payloads
        if names is None:
            names = self._ids(records)
            if self.options is None and payloads.id and len(set(names)) < len(names):
                raise shared_id(self.where, payloads.id, names)
        documents: tuple[Document, ...] | None = None
        if "documents" in fields:
            firsts = self._texts([*records, *answers.get("documents", ())])
            texts = {key: payloads.document(r.id, r.payload) for key, r in firsts.items()}
            documents = tuple(texts[self._document_key(record)] for record in records)
        added, stored = answers.get("added", ()), records
        if self.reads_added and "tokens" in fields:  # none where a point lacks them
            by_point = {record.id: record for record in added if BESIDE.tokens in record.vectors}
            stored = [by_point.get(record.id) or Record(record.id, _ABSENT, {}) for record in records]
        pool = Candidates(
            ids=tuple(names),
            scores=scores,
            dense=layout.dense_of(records)[0] if "dense" in fields and layout.has_dense else None,
            tokens=layout.tokens_of(stored) if "tokens" in fields else None,
            documents=documents,
            notes=out_of_date([r.id for r in records], documents, added) if "added" in answers else (),
            unit=self.unit,
        )
        if self.options is None or self.options.passages is None:
            return pool
        passages = tuple(payloads.passage_of(record.payload) for record in records)
        return replace(pool, passages=passages, best=self.options.passages.best)

    def included(
        self, pool: Candidates, points: Sequence[str], question: InclusionQuestion, records: Sequence[Record]
    ) -> Candidates:
        """Candidates, which are n points, with what was found by `inclusion`; a note if of earlier texts."""
        count = next(iter(self.layout.token_fields), None)
        pool = replace(pool, inclusion=question.inclusion(records, points, count))
        if not self.reads_added:
            return pool
        notes = (*pool.notes, *out_of_date(points, pool.documents, records))
        return replace(pool, notes=tuple(dict.fromkeys(notes)))

    def _texts(self, records: Sequence[Record]) -> dict[str, Record]:
        """Key -> the point that has a document's text: the first of its passages, or its only point."""
        is_first = self.payloads.is_first
        return {self._document_key(record): record for record in records if is_first(record.payload)}

    def _document_key(self, record: Record) -> str:
        return self.payloads.form.key(record, self.payloads.key)


def _asks_beside(query: models.QueryRequest) -> bool:
    vectors = query.with_vector if isinstance(query.with_vector, list) else ()
    return any(map(is_beside, (query.using, *vectors)))
