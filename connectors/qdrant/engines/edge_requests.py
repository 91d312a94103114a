"""The index's own requests in the classes of Qdrant Edge, with a user's filters and search parameters.

That is the nearest by a vector, or the most diverse of these, and a formula over the stage before. Everything
else is refused by name.
"""

from __future__ import annotations

from typing import Any

import qdrant_edge
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.edge_filters import lacking, to_filter

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
    own, acorn, idf = params.quantization, getattr(params, "acorn", None), getattr(params, "idf", None)
    quantization = None
    if own is not None:
        quantization = qdrant_edge.QuantizationSearchParams(bool(own.ignore), own.rescore, own.oversampling)
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
