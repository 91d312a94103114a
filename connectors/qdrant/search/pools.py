"""From requests to candidates: points become documents, and passages of one document stay together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.engines.base import Consistency
from surprise_rerank.connectors.qdrant.engines.steps import Steps, aask, ask, points, shard_keys, together
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    DENSE,
    DOCUMENT_FIELDS,
    ID,
    NUMBER,
    PASSAGE_FIELDS,
    PASSAGES,
    TOKEN_COUNT,
    TOKENS,
    Record,
    point_id,
    to_document,
    to_passage,
    to_terms,
)
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    dense_stage,
    of_tenant,
    request,
    rescored,
    tenants_in,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.connectors.qdrant.storage.tokens import to_token_batch, token_points
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

T = TypeVar("T")

# Stages for a number of points.
Plan: TypeAlias = Callable[[int], Sequence[Stage]]

# Times as many points are asked for as documents have on average, where all of theirs are wanted.
_MORE = 2


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        records: the points of the best documents, best first.
        every: all points that came back, best first: where documents are split, of further documents, too.
    """

    records: list[Record]
    every: list[Record]


@dataclass(frozen=True, slots=True)
class Pools:
    """Makes candidate pools of one index.

    Attributes:
        storage: of the index.
        density: points per document, about.
    """

    storage: Storage
    density: float

    def running(
        self, plan: Plan, depth: int, fields: frozenset[Field], name: str, options: SearchOptions
    ) -> Steps[Candidates]:
        """The best documents by what a plan ranks by, with their score.

        Args:
            plan: makes the stages.
            depth: number of documents.
            fields: what to fetch.
            name: of the score.
            options: of Qdrant.
        """
        records = (yield from self.best(plan, depth, fields, options)).records
        return (yield from self.candidates(records, fields, {name: scores_of(records)}))

    def ask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """What a reader returns; see `engines/steps.py`.

        Args:
            steps: of the reader.
            options: its consistency is that of all requests.

        Raises:
            DataError: if a consistency is asked for, and there is no server.
        """
        return ask(self.storage.engine, steps, self._consistency(options))

    async def aask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """`ask` for an event loop."""
        return await aask(self.storage.engine, steps, self._consistency(options))

    def _consistency(self, options: SearchOptions) -> Consistency | None:
        if options.consistency is not None and self.storage.engine.kind != "server":
            raise DataError(
                f"consistency={options.consistency!r} is for copies on a server, and {self.storage.where} "
                "has one copy; leave it away"
            )
        return options.consistency

    def best(
        self,
        plan: Plan,
        depth: int,
        fields: frozenset[Field],
        options: SearchOptions,
        vectors: Sequence[str] = (),
    ) -> Steps[Found]:
        """The points of the best documents by what a plan ranks by.

        Where documents are split, more points are requested until there are enough documents. The offset
        then counts documents.

        Args:
            plan: makes the stages.
            depth: number of documents.
            fields: what to fetch.
            options: of Qdrant.
            vectors: to fetch as well, by name.
        """
        passages, skipped = self.storage.manifest.options.passages, options.offset or 0
        wanted = depth + skipped
        if passages is None:
            # A stage must also pass on what is skipped.
            (records,) = yield [self._request(plan(wanted), depth, fields, options, vectors)]
            return Found(records, records)
        unskipped = replace(options, offset=None)
        limit = int(wanted * self.density) + 1
        while True:
            (records,) = yield [self._request(plan(limit), limit, fields, unskipped, vectors)]
            order = list(dict.fromkeys(record.payload[ID] for record in records))
            if len(order) >= wanted or len(records) < limit:
                break
            limit *= 2
        kept, own = order[skipped:wanted], records
        if passages.best > 1:
            # Every passage of these documents with its score, for means that do not depend on the pool.
            narrowed = replace(unskipped.among(among(kept)), score_threshold=None)
            own = yield from self.every(
                lambda limit: self._request(plan(limit), limit, fields, narrowed, ()), len(kept)
            )
        chosen = frozenset(kept)
        return Found([record for record in own if record.payload[ID] in chosen], records)

    def whole(
        self, found: Sequence[Record], ids: Sequence[str], fields: frozenset[Field]
    ) -> Steps[list[Record]]:
        """All points of some documents, in the order of the ids and of the passages.

        Args:
            found: points of these documents and of others; with what the fields need, if none is split.
            ids: of the documents.
            fields: what to fetch.
        """
        place = {name: i for i, name in enumerate(ids)}
        if not self.splits:
            return sorted((r for r in found if r.payload[ID] in place), key=lambda r: place[r.payload[ID]])
        payload, vectors = list(self._payload_fields(fields)), list(self._vectors(fields)) or False
        shards = shard_keys(record.tenant for record in found)
        asked = models.QueryRequest(
            filter=among(ids), with_payload=payload, with_vector=vectors, shard_key=shards
        )
        records = yield from self.every(lambda limit: asked.model_copy(update={"limit": limit}), len(ids))
        return sorted(records, key=lambda r: (place[r.payload[ID]], r.payload.get(NUMBER, 0)))

    def cosines(
        self, dense: Float32Array, documents: Sequence[str], options: SearchOptions
    ) -> Steps[dict[str, float]]:
        """Point -> its cosine, of all points of some documents; their vectors stay where they are.

        Args:
            dense: (d,) the question's vector.
            documents: ids.
            options: of the search that found the other candidates.
        """
        narrowed = replace(options, filter=among(documents), offset=None, score_threshold=None)
        chosen = rescored(narrowed, self.storage.manifest.options.quantization)
        records = yield from self.every(
            lambda limit: request([dense_stage(dense, limit)], limit, (), (), chosen), len(documents)
        )
        return {record.id: record.score for record in records}

    def every(self, asked: Callable[[int], models.QueryRequest], documents: int) -> Steps[list[Record]]:
        """All points of so many documents that a request can find.

        Args:
            asked: number of points -> the request.
            documents: how many the request's filter lets through.
        """
        limit = int(_MORE * documents * self.density) + 1
        while documents:
            (records,) = yield [asked(limit)]
            if len(records) < limit:
                return records
            limit *= 4
        return []

    def groups(
        self,
        stages: Sequence[Stage],
        group_by: str,
        limit: int,
        group_size: int,
        fields: frozenset[Field],
        name: str,
        options: SearchOptions,
    ) -> list[tuple[str | int, Candidates]]:
        """The best groups of points that share a value, each as a pool of its own."""
        payload = tuple(dict.fromkeys((*self._payload_fields(fields), group_by)))
        single = self._routed(stages, limit, payload, self._vectors(fields), replace(options, offset=None))
        agreeing = self._consistency(options)
        found = self.storage.engine.query_groups(single, group_by, group_size, agreeing)
        pools = [self.candidates(records, fields, {name: scores_of(records)}) for _, records in found]
        made = self.ask(together(*pools), options)
        return [(value, pool) for (value, _), pool in zip(found, made, strict=True)]

    def fetch(
        self,
        ids: Sequence[str],
        fields: frozenset[Field],
        *,
        skip_missing: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """Documents by id, in this order; all passages of each.

        Args:
            ids: of documents.
            fields: what to fetch.
            skip_missing: omit what is not in the index, instead of raising an error.
            options: the consistency of the search that this is a part of.

        Raises:
            DataError: if one is not in the index.
        """
        names = self._payload_fields(fields)
        counted = (*names, PASSAGES) if self.splits else names
        firsts = self._retrieve([point_id(name) for name in ids], counted, fields, options)
        missing = [name for name in ids if point_id(name) not in firsts]
        if missing and not skip_missing:
            raise DataError(f"{len(missing)} documents are not in the index, such as {missing[0]!r}; sync it")
        points = [
            point_id(name, number)
            for name in ids
            if point_id(name) in firsts
            for number in range(firsts[point_id(name)].payload.get(PASSAGES, 1))
        ]
        others = self._retrieve([point for point in points if point not in firsts], names, fields, options)
        found = {**firsts, **others}
        # A document that is being written lacks its last passages for a moment.
        there = [found[point] for point in points if point in found]
        return self.ask(self.candidates(there, fields, {}), options)

    @property
    def splits(self) -> bool:
        """Whether a document may have several points."""
        return self.storage.manifest.options.passages is not None

    def _retrieve(
        self,
        points: Sequence[str],
        names: Sequence[str],
        fields: frozenset[Field],
        options: SearchOptions,
    ) -> dict[str, Record]:
        agreeing, vectors = self._consistency(options), self._vectors(fields)
        found = self.storage.engine.retrieve(points, names, vectors, agreeing) if points else []
        return {record.id: record for record in found}

    def _request(
        self,
        stages: Sequence[Stage],
        limit: int,
        fields: frozenset[Field],
        options: SearchOptions,
        vectors: Sequence[str],
    ) -> models.QueryRequest:
        chosen = rescored(options, self.storage.manifest.options.quantization)
        every = tuple(dict.fromkeys((*self._vectors(fields), *vectors)))
        return self._routed(stages, limit, self._payload_fields(fields), every, chosen)

    def _routed(
        self,
        stages: Sequence[Stage],
        limit: int,
        fields: Sequence[str],
        vectors: Sequence[str],
        options: SearchOptions,
    ) -> models.QueryRequest:
        """A request to the shards of the tenants that the options name, where tenants have shards."""
        own = self.storage.manifest.options
        chosen = of_tenant(options, own.tenant_path)
        tenants = tenants_in(chosen.filter, own.tenant_path) if own.shard_by_tenant else None
        return request(stages, limit, fields, vectors, chosen, tenants)

    def _vectors(self, fields: frozenset[Field]) -> tuple[str, ...]:
        """Names of the vectors that fields are made of.

        Raises:
            DataError: if the index stores no sparse vectors, and terms are asked for.
        """
        if "terms" in fields and self.storage.manifest.options.bm25 is None:
            raise DataError("the index stores no sparse vectors; make it with IndexOptions(bm25=Bm25())")
        return (DENSE,) * ("dense" in fields) + (BM25,) * ("terms" in fields)

    def _payload_fields(self, fields: frozenset[Field]) -> tuple[str, ...]:
        names: tuple[str, ...] = DOCUMENT_FIELDS if "documents" in fields else (ID,)
        if self.splits:
            names = (*names, *PASSAGE_FIELDS)
        if self.storage.manifest.options.token_vectors is not None:
            names = (*names, TOKEN_COUNT)
        return names

    def candidates(
        self, records: Sequence[Record], fields: frozenset[Field], scores: Mapping[str, Float64Array]
    ) -> Steps[Candidates]:
        """Points as candidates, with their token vectors and whole documents where they are asked for.

        Args:
            records: n points, with the payload and the vectors that the fields need.
            fields: what the candidates have.
            scores: name -> (n,) the points'.
        """
        manifest, asked = self.storage.manifest, dict[str, models.QueryRequest]()
        tenants = [record.tenant for record in records]
        holders = token_points(manifest, records) if "tokens" in fields else {}
        if holders:
            asked["tokens"] = points(list(holders.values()), (TOKENS,), tenants)
        headless = _headless(records) if "documents" in fields else []
        if headless:
            asked["documents"] = points([point_id(name) for name in headless], DOCUMENT_FIELDS, tenants)
        answers = dict(zip(asked, (yield list(asked.values())), strict=True)) if asked else {}

        documents = _documents([*records, *answers.get("documents", ())]) if "documents" in fields else {}
        if "documents" in fields:
            # A document that is deleted between two requests is omitted.
            there = [i for i, record in enumerate(records) if record.payload[ID] in documents]
            records = [records[i] for i in there]
            scores = {name: own[there] for name, own in scores.items()}
        payloads = [record.payload for record in records]
        passages = manifest.options.passages
        found = Candidates(
            ids=tuple(p[ID] for p in payloads),
            scores=scores,
            dense=_dense(records, manifest.dimension) if "dense" in fields else None,
            tokens=to_token_batch(manifest, records, holders, answers.get("tokens", ()))
            if "tokens" in fields
            else None,
            terms=to_terms(records) if "terms" in fields else None,
            documents=tuple(documents[p[ID]] for p in payloads) if "documents" in fields else None,
        )
        if passages is None:
            return found
        return replace(found, passages=tuple(to_passage(p) for p in payloads), best=passages.best)


def _headless(records: Sequence[Record]) -> list[str]:
    """The documents whose first point is not among these."""
    here = {record.payload[ID] for record in records if record.payload.get(NUMBER, 0) == 0}
    return list(dict.fromkeys(r.payload[ID] for r in records if r.payload[ID] not in here))


def _documents(records: Sequence[Record]) -> dict[str, Document]:
    """Documents by id: the first point of each holds the text."""
    payloads = (record.payload for record in records)
    return {p[ID]: to_document(p) for p in payloads if p.get(NUMBER, 0) == 0}


def scores_of(records: Sequence[Record]) -> Float64Array:
    """(n,) what a search gave its points."""
    return np.array([record.score for record in records], np.float64)


def among(ids: Sequence[str]) -> models.Filter:
    """A filter for all points of these documents."""
    return models.Filter(must=[models.FieldCondition(key=ID, match=models.MatchAny(any=list(ids)))])


def _dense(records: Sequence[Record], dimension: int) -> Float32Array:
    vectors = np.array([record.vectors[DENSE] for record in records], dtype=np.float32)
    return vectors.reshape(len(records), dimension)
