"""Qdrant Edge: the Rust engine in this process, one shard in one folder."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import qdrant_edge
from pydantic import BaseModel
from qdrant_client import models

from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors.qdrant._engines.edge_shard import Shard, grown_mark_of
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._location import EngineKind
from surprise_rerank.connectors.qdrant._manifest import Manifest, Quantization, VectorForm
from surprise_rerank.connectors.qdrant._multivectors import CODED_FROM
from surprise_rerank.connectors.qdrant._schema import (
    BM25,
    TOKEN_VECTORS,
    Payload,
    PayloadFields,
    Point,
    PointId,
    Record,
    StoredVector,
    pages,
    to_record,
)

# Words of points, counted once a point, that go into one segment. Edge holds them in memory while a segment
# grows, and needs 60 bytes for each to finish it.
_SEGMENT_WORDS = 12_000_000
_WORD_BYTES = 4.5  # as Edge counts them when it compares a segment with the largest size


class EdgeEngine(Shard):
    """The points of one shard of an index, made where there is none."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.kind: EngineKind = "edge"
        self._manifest = manifest
        self._grown: Counter[str] = Counter()  # numbers in the vectors of the segment that grows, by name
        super().__init__(folder, _config(manifest), lambda shard: _index_payloads(shard, manifest))

    def changing(self) -> AbstractContextManager[None]:
        """While a change goes on; on a server its requests are waited for longer."""
        return nullcontext()

    def placement(self) -> None:
        """How points are spread over nodes: not at all."""

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        request = qdrant_edge.CountRequest(exact=True, filter=to_filter(condition))
        with self.use() as shard:
            return int(shard.count(request))

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        batch = [qdrant_edge.Point(p.id, _vectors(p.vectors), p.payload or None) for p in points]
        self.update(qdrant_edge.UpdateOperation.upsert_points(batch))
        for point in points:
            self._grown.update({name: _numbers(vector) for name, vector in point.vectors.items()})
        if self._grown[BM25] >= _SEGMENT_WORDS:
            self._finish_segment()

    def _finish_segment(self) -> None:
        """Build what was stored so far as a segment that no other one is merged with, and begin another."""
        bytes_each = {BM25: _WORD_BYTES, TOKEN_VECTORS: 0.5}
        largest = max(count * bytes_each.get(name, 4) for name, count in self._grown.items())
        self.condense(_config(self._manifest, largest=int(largest / 1024)))
        self._grown.clear()

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points; an operation each, as Edge has none for several payloads."""
        for name, payload in changes:
            self.update(qdrant_edge.UpdateOperation.set_payload([name], payload))

    def set_vectors(self, changes: Sequence[tuple[PointId, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points."""
        batch = [qdrant_edge.PointVectors(name, _vectors(vectors)) for name, vectors in changes]
        if batch:
            self.update(qdrant_edge.UpdateOperation.update_vectors(batch))

    def query_batch(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, best first; Python's lock is held meanwhile."""
        batch = qdrant_edge.QueryBatchRequest([to_query_request(request) for request in requests])
        with self.use() as shard:
            return [[to_record(p, p.score) for p in points] for points in shard.query_batch(batch)]

    def retrieve(
        self, point_ids: Sequence[PointId], fields: PayloadFields, vectors: Sequence[str] = ()
    ) -> list[Record]:
        """Points by id."""
        selector = _selector(fields)
        with self.use() as shard:
            points = shard.retrieve(list(point_ids), selector, list(vectors) or False)
        return [to_record(r) for r in points]

    def scroll(
        self,
        fields: PayloadFields,
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
            with self.use() as shard:
                return shard.scroll(request)

        return pages(page)

    def smallest(
        self, limit: int, fields: Sequence[str], condition: models.Filter | None = None
    ) -> list[Record]:
        """The points of the smallest ids, in their order."""
        return next(self.scroll(fields, batch=limit, condition=condition))

    @property
    def is_grown(self) -> bool:
        """Whether something came that the approximate index lacks."""
        return grown_mark_of(Path(self.where)).exists()


def _index_payloads(shard: qdrant_edge.EdgeShard, manifest: Manifest) -> None:
    for path, kind in manifest.options.all_payload_indexes.items():
        schema = getattr(qdrant_edge.PayloadSchemaType, kind.capitalize())
        shard.update(qdrant_edge.UpdateOperation.create_field_index(path, schema))


def _config(manifest: Manifest, largest: int | None = None) -> qdrant_edge.EdgeConfig:
    """How a shard stores its points, and how many KiB the vectors of a name may take in a segment."""
    # From files that are mapped into memory BM25 is as fast as from memory.
    sparse = {BM25: qdrant_edge.EdgeSparseVectorParams(memory=qdrant_edge.Memory.Cold)}
    return qdrant_edge.EdgeConfig(
        vectors={name: _params(form) for name, form in manifest.vectors.items()},
        sparse_vectors=sparse if manifest.options.bm25 else None,
        optimizers=None if largest is None else qdrant_edge.EdgeOptimizersConfig(max_segment_size=largest),
    )


def _params(form: VectorForm) -> qdrant_edge.EdgeVectorParams:
    dot, numbers = qdrant_edge.Distance.Dot, cast(Any, qdrant_edge.VectorStorageDatatype)  # stubs lack Turbo4
    if form.is_tokens:
        return qdrant_edge.EdgeVectorParams(
            size=form.size,
            distance=dot,
            multivector_config=qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim),
            datatype=numbers.Turbo4 if form.size >= CODED_FROM else numbers.Float16,
            hnsw_config=qdrant_edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        )
    quantized: dict[Quantization | None, Any] = {
        "int8": qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8),
        "binary": qdrant_edge.BinaryQuantizationConfig(),
    }
    memory = qdrant_edge.Memory.Cold if form.on_disk else None
    quantization = quantized.get(form.quantization)
    return qdrant_edge.EdgeVectorParams(form.size, dot, quantization_config=quantization, memory=memory)


def _numbers(vector: StoredVector) -> int:
    return len(vector.indices) if isinstance(vector, SparseVector) else vector.size


def _vectors(vectors: Mapping[str, StoredVector]) -> dict[str, Any]:
    return {
        name: qdrant_edge.SparseVector(v.indices.tolist(), v.values.tolist())
        if isinstance(v, SparseVector)
        else v.tolist()
        for name, v in vectors.items()
    }


def _selector(fields: PayloadFields) -> Any:
    """Which payload fields to read; for none, payloads are not read at all."""
    if fields is None:
        return True
    return qdrant_edge.PayloadSelector.Include(list(fields)) if fields else False


_LIMIT = 10  # of a request or a prefetch that sets none, as on a server
_DIVERSITY = 0.5  # a server's default


def to_query_request(request: models.QueryRequest) -> qdrant_edge.QueryRequest:
    """A request as Edge's `QueryBatchRequest` takes it.

    As on a server, a `limit` that is not set is 10, and payloads and vectors come only when asked for.

    Raises:
        StoreError: if it asks for something else than this index does.
    """
    limit = _LIMIT if request.limit is None else request.limit
    fields: Any = request.with_payload  # no selector: this index names fields
    return qdrant_edge.QueryRequest(
        limit=limit,
        offset=request.offset,
        query=_query(request.query, request.using, limit),
        prefetches=[] if request.prefetch is None else [_prefetch(request.prefetch)],
        with_vector=request.with_vector,
        with_payload=fields,
        filter=to_filter(request.filter),
        score_threshold=request.score_threshold,
        params=to_params(request.params),
    )


def to_params(params: models.SearchParams | None) -> qdrant_edge.SearchParams | None:
    """How to search: exactness, HNSW's width, quantization, and the corpus of the IDF."""
    if params is None:
        return None
    rescoring, acorn, idf = params.quantization, getattr(params, "acorn", None), getattr(params, "idf", None)
    quantization = None
    if rescoring is not None:
        quantization = qdrant_edge.QuantizationSearchParams(
            bool(rescoring.ignore), rescoring.rescore, rescoring.oversampling
        )
    return qdrant_edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        quantization=quantization,
        indexed_only=bool(params.indexed_only),
        acorn=acorn and qdrant_edge.AcornSearchParams(bool(acorn.enable), acorn.max_selectivity),
        # Of a corpus, or `IdfScope.GLOBAL`.
        idf=idf and qdrant_edge.IdfParams(to_filter(getattr(idf, "corpus", None))),
    )


def _prefetch(prefetch: Any) -> qdrant_edge.Prefetch:
    if not isinstance(prefetch, models.Prefetch):
        raise lacking("several prefetches of one query")
    limit = _LIMIT if prefetch.limit is None else prefetch.limit
    return qdrant_edge.Prefetch(
        limit=limit,
        query=_query(prefetch.query, prefetch.using, limit),
        prefetches=[] if prefetch.prefetch is None else [_prefetch(prefetch.prefetch)],
        params=to_params(prefetch.params),
        filter=to_filter(prefetch.filter),
        score_threshold=prefetch.score_threshold,
    )


def _query(query: Any, using: str | None, limit: int) -> Any:
    match query:
        case None:
            return None
        case list():
            return qdrant_edge.Query.Nearest(query, using=using)
        case models.NearestQuery(nearest=list() as vector):
            mmr = getattr(query, "mmr", None)
            if mmr is None:
                return qdrant_edge.Query.Nearest(vector, using=using)
            share = 1.0 - (_DIVERSITY if mmr.diversity is None else mmr.diversity)
            pool = limit if mmr.candidates_limit is None else mmr.candidates_limit
            return qdrant_edge.Mmr(vector, share, pool, using=using)
        case models.NearestQuery(nearest=models.SparseVector() as words):
            sparse = qdrant_edge.SparseVector(words.indices, words.values)
            return qdrant_edge.Query.Nearest(sparse, using=using)
        case models.FormulaQuery():
            return qdrant_edge.Formula(_expression(query.formula), query.defaults or None)
    raise lacking(f"query of the class {type(query).__name__}")


def _expression(value: Any) -> qdrant_edge.Expression:
    """A part of a formula of surprise."""
    kind = qdrant_edge.Expression
    match value:
        case str():
            return kind.Variable(value)
        case models.SumExpression():
            return kind.Sum([_expression(part) for part in value.sum])
        case models.NegExpression():
            return kind.Neg(_expression(value.neg))
        case models.DivExpression(div=terms):
            # The default is not optional, in spite of Edge's stubs.
            return kind.Div(_expression(terms.left), _expression(terms.right), terms.by_zero_default)
    raise lacking(f"formula with a {type(value).__name__}")


def to_filter(query_filter: models.Filter | None) -> qdrant_edge.Filter | None:
    """A filter; a condition of several tests holds where any of them does, in local mode the first counts.

    Raises:
        DataError: if a value is none that Qdrant takes: a path, a place on earth, a number of 64 bits.
        StoreError: if a condition is of a kind that Edge does not have.
    """
    if query_filter is None:
        return None
    try:
        return _filter(query_filter)
    except (ValueError, TypeError, OverflowError) as error:  # as the bindings refuse what Rust cannot hold
        said = str(error).splitlines()[0]
        if "Helper" in said:  # a type of Rust's
            said = "a value is of another kind, or has more than 64 bits"
        raise DataError(f"Qdrant does not take the filter: {said}; correct that condition") from error


def lacking(thing: str) -> StoreError:
    """Return the error for a feature that Qdrant Edge lacks."""
    return StoreError(f"Qdrant Edge has no {thing}; a Qdrant server has, so open the index with its url")


def _translated(value: Any) -> Any:
    """Return a part of a filter as Edge's object of the same name; plain values stay."""
    # By name, because the oldest supported qdrant-client has not all classes.
    kind = type(value).__name__
    if kind in _OTHERWISE:
        return _OTHERWISE[kind](value)
    if isinstance(value, list):
        return [_translated(member) for member in value]
    if not isinstance(value, BaseModel):
        return value
    kind_of_edge = getattr(qdrant_edge, kind, None)
    if kind_of_edge is None:
        raise lacking(f"condition of the class {kind}")
    parts = dict(value)
    only = next(iter(parts.values()))
    if len(parts) == 1 and isinstance(only, BaseModel):  # what is empty, a slice, what is nested
        parts = dict(only)
    return kind_of_edge(**{name: _translated(part) for name, part in parts.items()})


def _filter(query_filter: models.Filter) -> qdrant_edge.Filter:
    """A filter; its conditions may be one that is in no list."""
    parts = {
        name: _translated(
            conditions if isinstance(conditions, list) or name == "min_should" else [conditions]
        )
        for name, conditions in query_filter
        if conditions is not None
    }
    return qdrant_edge.Filter(**parts)


def _match_value(match: models.MatchValue) -> qdrant_edge.MatchValue:
    # Edge takes True for 1, which no boolean in a payload is equal to; it knows numpy's as what they are.
    value: Any = np.bool_(match.value) if isinstance(match.value, bool) else match.value
    return qdrant_edge.MatchValue(value)


def _dates(bounds: models.DatetimeRange) -> qdrant_edge.RangeDateTime:
    """RFC 3339; a time without a zone is one in UTC, as on a server."""
    moments: dict[str, datetime.date] = {name: bound for name, bound in bounds if bound is not None}
    return qdrant_edge.RangeDateTime(**{name: moment.isoformat() for name, moment in moments.items()})


def _has_id(condition: models.HasIdCondition) -> qdrant_edge.HasIdCondition:
    try:
        return qdrant_edge.HasIdCondition(set(condition.has_id))
    except ValueError as error:
        raise StoreError(f"has_id takes UUIDs or numbers of points: {error}") from error


_OTHERWISE: Mapping[str, Callable[[Any], Any]] = {
    "Filter": _filter,
    "MatchValue": _match_value,
    "MatchExcept": lambda match: qdrant_edge.MatchExcept(match.except_),
    "Range": lambda bounds: qdrant_edge.RangeFloat(**dict(bounds)),
    "DatetimeRange": _dates,
    "GeoLineString": lambda line: _translated(line.points),
    "HasIdCondition": _has_id,
    "HasVectorCondition": lambda condition: qdrant_edge.HasVectorCondition(condition.has_vector),
}
