"""Candidate pools of an index of ours: documents may be passages, and their whole texts come by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Unit
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._schema import (
    ALL,
    ID,
    NUMBER,
    PASSAGES,
    PointId,
    Record,
    document_key,
    point_id,
    tenant_of_key,
)
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.pools import (
    Asked,
    Found,
    Pools,
    Search,
    not_stored,
    settled,
)
from surprise_rerank.connectors.qdrant._search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    by_id,
    rescored,
)
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._writing.inventory import UnusablePlace
from surprise_rerank.core.arrays import Float64Array

_LOOKED_UP = 1000  # documents in a request
# Points a document in the first request of a search: of long ones the best passages come first. With all of
# theirs, 80 each, a search of 100 documents reads 8,000 points.
_POINTS = 8


class IndexPools(Pools):
    """Makes candidate pools of one index, or of one tenant's documents in it.

    Where the unit is a passage, each point is a candidate, and depths count them. Ids are still those of
    documents, and `keys` and `fetch` are of whole documents; what a search has found is known by its point.

    Args:
        storage: of the index.
        density: points per document, about.
        tenant: whose documents they are; the empty string for documents without a tenant. Those of `ALL`
            are named by their keys. Where None, an index with tenants reads documents by their keys, and is
            not searched.
        unit: what a candidate is.
    """

    def __init__(
        self, storage: Storage, density: float, tenant: str | None = None, unit: Unit = "document"
    ) -> None:
        self.storage, self.tenant, self.unit = storage, tenant, unit
        self._density = density if unit == "document" else 1.0
        self.where, self.layout = storage.where, VectorLayout.of(storage.manifest)
        self.payloads = storage.manifest.options.payloads
        self._key_field = storage.manifest.options.key_field  # asked for some 2,000 times in a search

    @property
    def density(self) -> float:
        """Points per document, about."""
        return self._density

    @property
    def splits(self) -> bool:
        """Whether a document may have several points."""
        return self.unit == "document" and bool(self.payloads.passage)

    def ask(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, in one request."""
        return self.storage.engine.query_batch(requests) if requests else []

    def best(self, *searches: Search) -> list[Found]:
        """The points of the best documents of each search; what all of them ask is one request.

        Where documents are split, the offset counts documents.
        """
        if not self.splits:
            return super().best(*searches)
        points, every = self._points_of(searches)
        kept = [
            self._documents_of(records)[search.options.offset or 0 : search.wanted]
            for search, records in zip(searches, points, strict=True)
        ]
        passages = self.storage.manifest.options.passages
        if passages is not None and passages.best > 1:
            # Every passage of these documents with its score, for means that do not depend on the pool.
            narrowed = {
                str(i): (self._narrowed(search, kept[i]), len(kept[i])) for i, search in enumerate(searches)
            }
            points = list(self.every(narrowed).values())
        chosen = [frozenset(names) for names in kept]
        return [
            Found([record for record in points[i] if self.key(record) in keys], every[i])
            for i, keys in enumerate(chosen)
        ]

    def _points_of(self, searches: Sequence[Search]) -> tuple[list[list[Record]], list[list[Record]]]:
        """Return points of enough documents for each search, best first, and those of its first request.

        Where these are of too few documents, the next request is for points of others.
        """
        options = [replace(search.options, offset=None) for search in searches]
        limits = {i: int(s.wanted * min(self.density, _POINTS)) + 1 for i, s in enumerate(searches)}
        points: list[list[Record]] = [[] for _ in searches]
        firsts: list[list[Record]] = []
        each = _POINTS
        while limits:
            requests = [
                self.request(searches[i].plan(n), n, searches[i], options[i]) for i, n in limits.items()
            ]
            answers = dict(zip(limits, self.ask(requests), strict=True))
            firsts = firsts or list(answers.values())
            waiting = [i for i, records in answers.items() if len(records) >= limits[i]]
            limits, each = {}, 2 * each  # one document may have most of the points
            for i, records in answers.items():
                points[i] = settled(sorted([*points[i], *records], key=lambda record: -record.score))
                keys = self._documents_of(points[i])
                missing = searches[i].wanted - len(keys)
                if i in waiting and missing > 0:
                    others = models.Filter(must_not=[self.among(keys)])
                    options[i] = replace(searches[i].options, offset=None).among(others)
                    limits[i] = missing * each + 1
        return points, firsts

    def request(
        self, stages: Sequence[Stage], limit: int, search: Search, options: SearchOptions
    ) -> models.QueryRequest:
        """A request for a number of points of a search; a DataError if nobody said whose they are."""
        self.require_tenant()
        return super().request(stages, limit, search, options)

    def require_tenant(self) -> None:
        """Refuse, by a DataError, to look through an index with tenants for nobody's sake."""
        options = self.storage.manifest.options
        if self.tenant is None and options.tenant is not None:
            raise DataError(
                "the index has tenants, and none is named; give "
                f"tenant= (--tenant NAME), '' for those of no tenant, {ALL!r} for those of all"
            )

    def _narrowed(self, search: Search, documents: Sequence[str]) -> Asked:
        """Return a search as a request that finds only points of some documents."""
        options = replace(search.options.among(self.among(documents)), score_threshold=None, offset=None)
        plain = replace(search, vectors=())
        return lambda limit: self.request(search.plan(limit), limit, plain, options)

    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id, in this order; see `Corpus.fetch`."""
        names = self.payload_of(fields)
        counted = (*names, PASSAGES) if self.payloads.passage else names
        keys = self.keys(ids)
        firsts = self._retrieve([point_id(key) for key in keys.values()], counted, fields)
        missing = [name for name in ids if point_id(keys[name]) not in firsts]
        if missing and not skip_missing:
            whose = ""
            if self.storage.manifest.options.tenant is not None:
                whose = " (say tenant=)" if self._is_of_all else f" of tenant {self.tenant!r}"
            raise not_stored(self.where, missing, whose)
        points = [
            point_id(keys[name], number)
            for name in ids
            if point_id(keys[name]) in firsts
            for number in range(firsts[point_id(keys[name])].payload.get(PASSAGES, 1))
        ]
        others = self._retrieve([point for point in points if point not in firsts], names, fields)
        stored = {**firsts, **others}
        # A document that is being written lacks its last passages for a moment.
        records = [stored[point] for point in points if point in stored]
        answers = self.answered(self.parts(records, fields))
        return self.candidates_of(self.whole(records, fields, answers), fields, {}, answers)

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Documents by id, of their first points; those that are not there are left out."""
        names = {point_id(key): name for name, key in self.keys(ids).items()}
        layout = self.payloads
        records = self._retrieve(list(names), layout.document_fields())
        return {names[point]: layout.document(point, record.payload) for point, record in records.items()}

    def _retrieve(
        self, points: Sequence[str], names: Sequence[str], fields: frozenset[Field] = frozenset()
    ) -> dict[str, Record]:
        records = self.storage.engine.retrieve(points, names, self.vectors_of(fields)) if points else []
        return {record.id: record for record in records}

    def firsts(self) -> models.Filter | None:
        """A filter for the first points of documents, each of which has one; None for all points."""
        options, conditions = self.storage.manifest.options, list[models.Condition]()
        if options.passages is not None:
            conditions.append(models.FieldCondition(key=NUMBER, match=models.MatchValue(value=0)))
        if self.tenant is not None and (whose := options.tenant_filter(self.tenant)) is not None:
            conditions.append(whose)
        return models.Filter(must=conditions) if conditions else None

    def first_points(
        self, fields: Sequence[str], condition: models.Filter | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[Record]:
        """Return the first points of documents: of those that a filter lets through, and of these ids.

        They are read page by page.

        Raises:
            DataError: if the index has tenants and nobody says whose documents these are.
        """
        self.require_tenant()
        engine, options = self.storage.engine, NO_OPTIONS.among(condition).among(self.firsts())
        conditions: Iterable[models.Filter | None] = [options.filter]
        if ids is not None:
            points = [point_id(key) for key in self.keys(border.texts("ids", ids)).values()]
            parts = (points[start : start + _LOOKED_UP] for start in range(0, len(points), _LOOKED_UP))
            named = (models.Filter(must=[models.HasIdCondition(has_id=[*part])]) for part in parts)
            conditions = (options.among(those).filter for those in named)
        pages = chain.from_iterable(engine.scroll(fields, condition=wanted) for wanted in conditions)
        return chain.from_iterable(pages)

    def still_stored(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates, and their points."""
        numbers = [0] * len(pool) if pool.passages is None else [passage.number for passage in pool.passages]
        keys = self.keys(pool.ids)
        return pool, [point_id(keys[name], number) for name, number in zip(pool.ids, numbers, strict=True)]

    def prepared(self, options: SearchOptions) -> SearchOptions:
        """With the tenant as a part of the filter, and what quantised vectors found rescored."""
        stored_with = self.storage.manifest.options
        if self.tenant is not None:
            options = options.among(stored_with.tenant_filter(self.tenant))
        return rescored(options, stored_with.quantization)

    def payload_of(self, fields: frozenset[Field]) -> tuple[str, ...]:
        """What to fetch of points' payloads for candidates with these fields."""
        payloads = self.payloads
        names = payloads.document_fields() if "documents" in fields else payloads.id_fields
        if self._key_field != ID:
            names = (*names, self._key_field)
        names = (*names, *payloads.passage)
        return (*names, *TOKEN_FIELDS) if "tokens" in fields else names

    def parts(self, records: Sequence[Record], fields: frozenset[Field]) -> dict[str, models.QueryRequest]:
        """Return the request for the whole documents of passages without their first one."""
        if "documents" not in fields:
            return {}
        heads = {self._document(record) for record in records if self.payloads.is_first(record.payload)}
        headless = [key for key in dict.fromkeys(map(self._document, records)) if key not in heads]
        if not headless:
            return {}
        return {
            "documents": by_id([point_id(key) for key in headless], self.payload_of(frozenset({"documents"})))
        }

    def whole(
        self, records: Sequence[Record], fields: frozenset[Field], answers: Mapping[str, Sequence[Record]]
    ) -> list[Record]:
        """Return the points whose document was not deleted between two requests."""
        if "documents" not in fields:
            return list(records)
        documents = self._documents([*records, *answers.get("documents", ())])
        return [record for record in records if self._document(record) in documents]

    def candidates_of(
        self,
        records: Sequence[Record],
        fields: frozenset[Field],
        scores: Mapping[str, Float64Array],
        answers: Mapping[str, Sequence[Record]],
    ) -> Candidates:
        """Make candidates of points, with whole documents where wanted; see `Pools.candidates_of`."""
        manifest = self.storage.manifest
        has_texts = "documents" in fields
        documents = self._documents([*records, *answers.get("documents", ())]) if has_texts else {}
        payloads = [record.payload for record in records]
        name_field = self._key_field if self._is_of_all else ID
        passages = manifest.options.passages
        pool = Candidates(
            ids=tuple(p[name_field] for p in payloads),
            scores=scores,
            dense=self.layout.dense_of(records)[0] if "dense" in fields else None,
            tokens=self.layout.tokens_of(records) if "tokens" in fields else None,
            documents=tuple(documents[self._document(record)] for record in records) if has_texts else None,
            unit=self.unit,
        )
        if passages is None:
            return pool
        of_each = tuple(map(self.payloads.passage_of, payloads))
        return replace(pool, passages=of_each, best=passages.best)

    def key(self, record: Record) -> str:
        """What the document is known by, see `schema.document_key`; the id of the point of a passage."""
        return self._document(record) if self.unit == "document" else record.id

    def _document(self, record: Record) -> str:
        key: str = record.payload[self._key_field]
        return key

    def names(self, records: Sequence[Record]) -> dict[str, str]:
        """Every point has its document's id."""
        name_field = self._key_field if self._is_of_all else ID
        return {self.key(record): str(record.payload[name_field]) for record in records}

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """The ids themselves, or those of the tenant."""
        tenant = None if self._is_of_all else self.tenant
        return {name: encodable(document_key(name, tenant)) for name in ids}

    def among(self, keys: Sequence[str]) -> models.Filter:
        """A filter for all points of these documents, or for the points of these passages."""
        if self.unit == "passage":
            return models.Filter(must=[models.HasIdCondition(has_id=list(keys))])
        of_these = models.FieldCondition(key=self._key_field, match=models.MatchAny(any=list(keys)))
        return models.Filter(must=[of_these])

    @property
    def _is_of_all(self) -> bool:
        return self.tenant in (None, ALL)

    def _documents_of(self, records: Iterable[Record]) -> list[str]:
        """The keys of points' documents, in their order."""
        return list(dict.fromkeys(map(self.key, records)))

    def _documents(self, records: Sequence[Record]) -> dict[str, Document]:
        """Documents by key: the first point of each holds the text."""
        layout = self.payloads
        firsts = (record for record in records if layout.is_first(record.payload))
        return {self._document(record): layout.document(record.id, record.payload) for record in firsts}


class WithOtherTenants:
    """Documents, and after them those of an index whose tenant none of them has."""

    def __init__(self, documents: Iterable[Document], storage: Storage) -> None:
        self._documents, self._storage = documents, storage

    def __iter__(self) -> Iterator[Document]:
        options, tenants = self._storage.manifest.options, set[str]()
        for document in self._documents:
            tenants.add(tenant_of_key(options.key_of(document)))
            yield document
        layout, firsts = options.payloads, IndexPools(self._storage, 1.0).firsts()
        fields = (*layout.document_fields(), layout.source, options.key_field)
        for records in self._storage.engine.scroll(fields, condition=firsts):
            for record in records:
                if tenant_of_key(record.payload[options.key_field]) not in tenants:
                    yield layout.document(record.id, record.payload)

    @property
    def unusable(self) -> Sequence[UnusablePlace]:
        """What could not be used, as a `DocumentSource` has it."""
        places: Sequence[UnusablePlace] = getattr(self._documents, "unusable", ())
        return places
