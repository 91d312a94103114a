"""From requests to candidates: points become documents, and passages of one document stay together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    DENSE,
    DOCUMENT_FIELDS,
    ID,
    NUMBER,
    PASSAGE_FIELDS,
    PASSAGES,
    Record,
    point_id,
    to_document,
    to_passage,
    to_terms,
)
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions, Stage, request, rescored
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.connectors.qdrant.storage.tokens import stored_tokens
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

# Stages for a number of points.
Plan = Callable[[int], Sequence[Stage]]


@dataclass(frozen=True, slots=True)
class Pools:
    """Makes candidate pools of one index.

    Attributes:
        storage: of the index.
        density: points per document, about.
    """

    storage: Storage
    density: float

    def run(
        self, plan: Plan, depth: int, fields: frozenset[Field], name: str, options: SearchOptions
    ) -> Candidates:
        """The best documents by what a plan ranks by, with their score.

        Where documents are split, more points are requested until there are enough documents. The offset
        then counts documents.

        Args:
            plan: makes the stages.
            depth: number of documents.
            fields: what to fetch.
            name: of the score.
            options: of Qdrant.
        """
        passages = self.storage.manifest.options.passages
        if passages is None:
            # A stage must also pass on what is skipped.
            stages = plan(depth + (options.offset or 0))
            return self._candidates(self._query(stages, depth, fields, options), fields, name)
        skipped = options.offset or 0
        wanted = depth + skipped
        unskipped = replace(options, offset=None)
        limit = int(wanted * self.density) + 1
        while True:
            records = self._query(plan(limit), limit, fields, unskipped)
            order = list(dict.fromkeys(record.payload[ID] for record in records))
            if len(order) >= wanted or len(records) < limit:
                kept = order[skipped:wanted]
                if passages.best > 1 and kept:
                    records = self._all_passages(plan, kept, fields, unskipped)
                among = frozenset(kept)
                chosen = [record for record in records if record.payload[ID] in among]
                return self._candidates(chosen, fields, name)
            limit *= 2

    def _all_passages(
        self, plan: Plan, ids: Sequence[str], fields: frozenset[Field], options: SearchOptions
    ) -> list[Record]:
        """Every passage of these documents with its score, for means that do not depend on the pool."""
        among = models.FieldCondition(key=ID, match=models.MatchAny(any=list(ids)))
        points = self.storage.engine.count(models.Filter(must=[among]))
        own = [options.filter] if options.filter is not None else []
        narrowed = replace(options, filter=models.Filter(must=[among, *own]), score_threshold=None)
        return self._query(plan(points), points, fields, narrowed)

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
        single = request(stages, limit, payload, self._vectors(fields), replace(options, offset=None))
        found = self.storage.engine.query_groups(single, group_by, group_size)
        return [(value, self._candidates(records, fields, name)) for value, records in found]

    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id, in this order; all passages of each.

        Args:
            ids: of documents.
            fields: what to fetch.
            skip_missing: omit what is not in the index, instead of raising an error.

        Raises:
            DataError: if one is not in the index.
        """
        names = self._payload_fields(fields)
        counted = (*names, PASSAGES) if self._splits else names
        firsts = self._retrieve([point_id(name) for name in ids], counted, fields)
        missing = [name for name in ids if point_id(name) not in firsts]
        if missing and not skip_missing:
            raise DataError(f"{len(missing)} documents are not in the index, such as {missing[0]!r}; sync it")
        points = [
            point_id(name, number)
            for name in ids
            if point_id(name) in firsts
            for number in range(firsts[point_id(name)].payload.get(PASSAGES, 1))
        ]
        others = self._retrieve([point for point in points if point not in firsts], names, fields)
        found = {**firsts, **others}
        # A document that is being written lacks its last passages for a moment.
        return self._candidates([found[point] for point in points if point in found], fields, None)

    @property
    def _splits(self) -> bool:
        return self.storage.manifest.options.passages is not None

    def _retrieve(
        self, points: Sequence[str], names: Sequence[str], fields: frozenset[Field]
    ) -> dict[str, Record]:
        found = self.storage.engine.retrieve(points, names, self._vectors(fields)) if points else []
        return {record.id: record for record in found}

    def _query(
        self, stages: Sequence[Stage], limit: int, fields: frozenset[Field], options: SearchOptions
    ) -> list[Record]:
        chosen = rescored(options, self.storage.manifest.options.quantization)
        return self.storage.engine.query(
            request(stages, limit, self._payload_fields(fields), self._vectors(fields), chosen)
        )

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
        if self._splits:
            names = (*names, *PASSAGE_FIELDS)
        return names

    def _candidates(
        self, records: Sequence[Record], fields: frozenset[Field], name: str | None
    ) -> Candidates:
        documents = self._documents(records) if "documents" in fields else {}
        if "documents" in fields:
            # A document that is deleted between two requests is omitted.
            records = [record for record in records if record.payload[ID] in documents]
        payloads = [record.payload for record in records]
        dimension = self.storage.manifest.dimension
        passages = self.storage.manifest.options.passages
        found = Candidates(
            ids=tuple(p[ID] for p in payloads),
            scores={} if name is None else {name: np.array([r.score for r in records], np.float64)},
            dense=_dense(records, dimension) if "dense" in fields else None,
            tokens=stored_tokens(self.storage, records) if "tokens" in fields else None,
            terms=to_terms(records) if "terms" in fields else None,
            documents=tuple(documents[p[ID]] for p in payloads) if "documents" in fields else None,
        )
        if passages is None:
            return found
        return replace(found, passages=tuple(to_passage(p) for p in payloads), best=passages.best)

    def _documents(self, records: Sequence[Record]) -> dict[str, Document]:
        """Whole documents by id: the first point of each holds the text, also where a later one was found."""
        payloads = [record.payload for record in records]
        whole = {p[ID]: to_document(p) for p in payloads if p.get(NUMBER, 0) == 0}
        missing = list(dict.fromkeys(p[ID] for p in payloads if p[ID] not in whole))
        if missing:
            firsts = self.storage.engine.retrieve([point_id(name) for name in missing], DOCUMENT_FIELDS)
            whole.update((record.payload[ID], to_document(record.payload)) for record in firsts)
        return whole


def _dense(records: Sequence[Record], dimension: int) -> Float32Array:
    vectors = np.array([record.vectors[DENSE] for record in records], dtype=np.float32)
    return vectors.reshape(len(records), dimension)
