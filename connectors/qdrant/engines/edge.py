"""Qdrant Edge: the Rust engine in this process, one shard in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import qdrant_edge
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.base import (
    Consistency,
    Hits,
    hits_of,
    pages,
    payload_indexes,
    to_record,
)
from surprise_rerank.connectors.qdrant.engines.edge_requests import to_filter, to_query_request
from surprise_rerank.connectors.qdrant.engines.edge_shard import Shard
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
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
)
from surprise_rerank.core.arrays import Float32Array

# KiB; Edge would make several graphs of 200 MiB for each core, and each query would search all of them.
_ONE_SEGMENT = 10**9


class EdgeEngine:
    """The points of one shard; see `of_documents` and `of_vectors`.

    Args:
        shard: it is closed with the engine.
    """

    kind: EngineKind = "edge"

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.where = shard.where

    @classmethod
    def of_documents(cls, folder: Path, manifest: Manifest) -> EdgeEngine:
        """A shard for an index of documents, made where there is none.

        One that exists is open for reading, beside other readers, until something is changed.

        Raises:
            StoreError: if the shard cannot be opened.
        """
        return cls(
            Shard(folder, _config(manifest), lambda shard: _index_payloads(shard, manifest), shared=True)
        )

    @classmethod
    def of_vectors(cls, folder: Path, name: str, dimension: int) -> EdgeEngine:
        """A shard for vectors of one kind, made where there is none; its one segment has one graph.

        Raises:
            StoreError: if the shard cannot be opened.
        """
        vectors = {name: qdrant_edge.EdgeVectorParams(dimension, qdrant_edge.Distance.Dot)}
        optimizers = qdrant_edge.EdgeOptimizersConfig(default_segment_number=1, max_segment_size=_ONE_SEGMENT)
        return cls(Shard(folder, qdrant_edge.EdgeConfig(vectors=vectors, optimizers=optimizers)))

    def changing(self) -> AbstractContextManager[None]:
        """Nothing to do: it is never away."""
        return nullcontext()

    def claim(self) -> None:
        """Become the only one who has the folder open; others may have it for reading until then.

        Raises:
            StoreError: if somebody else has it; this engine can be read on.
        """
        self._shard.claim()

    def placement(self) -> None:
        """None: a folder has no nodes."""

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        request = qdrant_edge.CountRequest(exact=True, filter=to_filter(condition))
        with self._shard.use() as shard:
            return int(shard.count(request))

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        batch = [qdrant_edge.Point(p.id, _vectors(p.vectors), p.payload or None) for p in points]
        self._shard.update(qdrant_edge.UpdateOperation.upsert_points(batch))

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points."""
        if point_ids:
            self._shard.update(qdrant_edge.UpdateOperation.delete_points(list(point_ids)))

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points; an operation each, as Edge has none for several payloads."""
        for name, payload in changes:
            self._shard.update(qdrant_edge.UpdateOperation.set_payload([name], payload))

    def set_vectors(self, changes: Sequence[tuple[str, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points."""
        batch = [qdrant_edge.PointVectors(name, _vectors(vectors)) for name, vectors in changes]
        if batch:
            self._shard.update(qdrant_edge.UpdateOperation.update_vectors(batch))

    def query(self, request: models.QueryRequest) -> list[Record]:
        """The best points, best first."""
        return self.query_batch([request])[0]

    def query_batch(
        self, requests: Sequence[models.QueryRequest], consistency: Consistency | None = None
    ) -> list[list[Record]]:
        """The points that each of several queries finds, best first; Python's lock is held meanwhile."""
        batch = qdrant_edge.QueryBatchRequest([to_query_request(request) for request in requests])
        with self._shard.use() as shard:
            return [[to_record(p, p.score) for p in found] for found in shard.query_batch(batch)]

    def search(
        self, vector: str, queries: Float32Array, limit: int, *, ef: int, least: float | None = None
    ) -> list[Hits]:
        """The best points of each of several queries; Python's lock is held until all are answered."""
        params = qdrant_edge.SearchParams(hnsw_ef=ef)
        requests = [
            qdrant_edge.QueryRequest(
                query=qdrant_edge.Query.Nearest(query, using=vector),
                limit=limit,
                score_threshold=least,
                params=params,
            )
            for query in queries
        ]
        with self._shard.use() as shard:
            return [hits_of(found) for found in shard.query_batch(qdrant_edge.QueryBatchRequest(requests))]

    def retrieve(
        self,
        point_ids: Sequence[str],
        fields: Sequence[str],
        vectors: Sequence[str] = (),
        consistency: Consistency | None = None,
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
        """All points, in batches."""
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

    def smallest(
        self, limit: int, fields: Sequence[str], condition: models.Filter | None = None
    ) -> list[Record]:
        """The points of the smallest ids: the first of a scroll."""
        return next(self.scroll(fields, batch=limit, condition=condition))

    def flush(self) -> None:
        """Write everything to disk."""
        self._shard.flush()

    def finish(self) -> None:
        """Build the approximate index where there is enough to index, and write everything to disk."""
        self._shard.finish()

    def build_graph(self, advance: Callable[[int], None], *, size: int, patience: float) -> None:
        """Index all vectors; Edge reports no progress before the end."""
        self._shard.finish(size)
        advance(self.count())

    def close(self) -> None:
        """Flush and release the folder's lock, after the requests of other threads."""
        self._shard.close()


def _index_payloads(shard: qdrant_edge.EdgeShard, manifest: Manifest) -> None:
    for path, kind in payload_indexes(manifest.options).items():
        schema = getattr(qdrant_edge.PayloadSchemaType, kind.capitalize())
        shard.update(qdrant_edge.UpdateOperation.create_field_index(path, schema))


def _config(manifest: Manifest) -> qdrant_edge.EdgeConfig:
    options, d = manifest.options, manifest.dimension
    dot = qdrant_edge.Distance.Dot
    memory = qdrant_edge.Memory.Cold if options.on_disk else None
    quantization = _quantization(options)
    vectors = {DENSE: qdrant_edge.EdgeVectorParams(d, dot, quantization_config=quantization, memory=memory)}
    if options.surprise_vector:
        vectors[SURPRISE] = qdrant_edge.EdgeVectorParams(d + 1, dot, memory=memory)
    if options.tokens:
        vectors[TOKEN_VECTORS] = _token_params(manifest.token_dimension)
    sparse = {BM25: qdrant_edge.EdgeSparseVectorParams()}
    return qdrant_edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse if options.bm25 else None)


def _token_params(d: int) -> qdrant_edge.EdgeVectorParams:
    kinds: Any = qdrant_edge.VectorStorageDatatype  # whose stubs lack the first
    return qdrant_edge.EdgeVectorParams(
        size=d,
        distance=qdrant_edge.Distance.Dot,
        multivector_config=qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim),
        datatype=kinds.Turbo4 if d >= CODED_FROM else kinds.Float16,
        # They only re-score what another stage found: a graph of them would be built in vain.
        hnsw_config=qdrant_edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )


def _quantization(options: IndexOptions) -> Any:
    match options.quantization:
        case "int8":
            return qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8)
        case "binary":
            return qdrant_edge.BinaryQuantizationConfig()
        case _:
            return None


def _vectors(vectors: Mapping[str, StoredVector]) -> dict[str, Any]:
    return {
        name: qdrant_edge.SparseVector(v.indices.tolist(), v.values.tolist())
        if isinstance(v, SparseVector)
        else v.tolist()
        for name, v in vectors.items()
    }


def _selector(fields: Sequence[str]) -> Any:
    """Which payload fields to read; for none, payloads, which hold the tokens, are not read at all."""
    return qdrant_edge.PayloadSelector.Include(list(fields)) if fields else False
