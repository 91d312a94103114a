"""Qdrant Edge: the Rust engine in this process, one shard in one folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import qdrant_edge
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.edge_requests import to_filter, to_query_request
from surprise_rerank.connectors.qdrant.engines.edge_shard import Shard
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.multivectors import CODED_FROM
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    DENSE,
    SURPRISE,
    TOKEN_VECTORS,
    Payload,
    Point,
    PointId,
    Record,
    StoredVector,
    pages,
    to_record,
)


class EdgeEngine:
    """The points of one shard of an index, made where there is none.

    One that exists is open for reading, beside other readers, until something is changed.

    Raises:
        StoreError: if the shard cannot be opened.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.kind: EngineKind = "edge"
        self._shard = Shard(folder, _config(manifest), lambda shard: _index_payloads(shard, manifest))
        self.where = self._shard.where

    def changing(self) -> AbstractContextManager[None]:
        """While a change goes on; on a server its requests are waited for longer."""
        return nullcontext()

    def placement(self) -> None:
        """How points are spread over nodes: not at all."""

    def claim(self) -> None:
        """Become the only one who has the folder open; others may have it for reading until then.

        Raises:
            StoreError: if somebody else has it; this engine can be read on.
        """
        self._shard.claim()

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        request = qdrant_edge.CountRequest(exact=True, filter=to_filter(condition))
        with self._shard.use() as shard:
            return int(shard.count(request))

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        batch = [qdrant_edge.Point(p.id, _vectors(p.vectors), p.payload or None) for p in points]
        self._shard.update(qdrant_edge.UpdateOperation.upsert_points(batch))

    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points."""
        if point_ids:
            self._shard.update(qdrant_edge.UpdateOperation.delete_points(list(point_ids)))

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points; an operation each, as Edge has none for several payloads."""
        for name, payload in changes:
            self._shard.update(qdrant_edge.UpdateOperation.set_payload([name], payload))

    def set_vectors(self, changes: Sequence[tuple[PointId, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points."""
        batch = [qdrant_edge.PointVectors(name, _vectors(vectors)) for name, vectors in changes]
        if batch:
            self._shard.update(qdrant_edge.UpdateOperation.update_vectors(batch))

    def query_batch(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, best first; Python's lock is held meanwhile."""
        batch = qdrant_edge.QueryBatchRequest([to_query_request(request) for request in requests])
        with self._shard.use() as shard:
            return [[to_record(p, p.score) for p in found] for found in shard.query_batch(batch)]

    def retrieve(
        self, point_ids: Sequence[PointId], fields: Sequence[str], vectors: Sequence[str] = ()
    ) -> list[Record]:
        """Points by id."""
        selector = _selector(fields)
        with self._shard.use() as shard:
            found = shard.retrieve(list(point_ids), selector, list(vectors) or False)
        return [to_record(r) for r in found]

    def scroll(
        self,
        fields: Sequence[str],
        vectors: Sequence[str] = (),
        *,
        batch: int = 1000,
        condition: models.Filter | None = None,
    ) -> Iterator[list[Record]]:
        """All points, in batches, in the order of their ids."""
        chosen = to_filter(condition)

        def page(offset: Any) -> tuple[Sequence[Any], Any]:
            request = qdrant_edge.ScrollRequest(
                offset=offset,
                limit=batch,
                filter=chosen,
                with_payload=_selector(fields),
                with_vector=list(vectors) or False,
            )
            with self._shard.use() as shard:
                return shard.scroll(request)

        return pages(page)

    def smallest(self, limit: int, fields: Sequence[str]) -> list[Record]:
        """The points of the smallest ids, in their order."""
        return next(self.scroll(fields, batch=limit))

    def finish(self) -> None:
        """Build the approximate index where there is enough to index, and write everything to disk."""
        self._shard.finish()

    def close(self) -> None:
        """Flush and release the folder's lock, after the requests of other threads."""
        self._shard.close()


def _index_payloads(shard: qdrant_edge.EdgeShard, manifest: Manifest) -> None:
    for path, kind in manifest.options.all_payload_indexes.items():
        schema = getattr(qdrant_edge.PayloadSchemaType, kind.capitalize())
        shard.update(qdrant_edge.UpdateOperation.create_field_index(path, schema))


def _config(manifest: Manifest) -> qdrant_edge.EdgeConfig:
    options, d, dot = manifest.options, manifest.dimension, qdrant_edge.Distance.Dot
    memory = qdrant_edge.Memory.Cold if options.on_disk else None
    quantization: Any = None
    match options.quantization:
        case "int8":
            quantization = qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8)
        case "binary":
            quantization = qdrant_edge.BinaryQuantizationConfig()
    vectors = {DENSE: qdrant_edge.EdgeVectorParams(d, dot, quantization_config=quantization, memory=memory)}
    if options.surprise_vector:
        vectors[SURPRISE] = qdrant_edge.EdgeVectorParams(d + 1, dot, memory=memory)
    if options.tokens:
        numbers: Any = qdrant_edge.VectorStorageDatatype  # whose stubs lack the first
        vectors[TOKEN_VECTORS] = qdrant_edge.EdgeVectorParams(
            size=manifest.token_dimension,
            distance=dot,
            multivector_config=qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim),
            datatype=numbers.Turbo4 if manifest.token_dimension >= CODED_FROM else numbers.Float16,
            # They only re-score what another stage found: a graph of them would be built in vain.
            hnsw_config=qdrant_edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        )
    sparse = {BM25: qdrant_edge.EdgeSparseVectorParams()}
    return qdrant_edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse if options.bm25 else None)


def _vectors(vectors: Mapping[str, StoredVector]) -> dict[str, Any]:
    return {
        name: qdrant_edge.SparseVector(v.indices.tolist(), v.values.tolist())
        if isinstance(v, SparseVector)
        else v.tolist()
        for name, v in vectors.items()
    }


def _selector(fields: Sequence[str]) -> Any:
    """Which payload fields to read; for none, payloads are not read at all."""
    return qdrant_edge.PayloadSelector.Include(list(fields)) if fields else False
