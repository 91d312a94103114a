"""The index's own requests in the classes of Qdrant Edge, with a user's filters and search parameters.

That is the nearest by a vector, and a formula over the stage before. Everything else is refused by name.
"""

from __future__ import annotations

from typing import Any

import qdrant_edge
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.edge_filters import lacking, to_filter

_LIMIT = 10  # of a request or a prefetch that sets none, as on a server


def to_query_request(request: models.QueryRequest) -> qdrant_edge.QueryRequest:
    """A request as Edge's `QueryBatchRequest` takes it.

    As on a server, a `limit` that is not set is 10, and payloads and vectors come only when asked for.

    Raises:
        StoreError: if it asks for something else than this index does.
    """
    return qdrant_edge.QueryRequest(
        limit=_LIMIT if request.limit is None else request.limit,
        offset=request.offset,
        query=_query(request.query, request.using),
        prefetches=[] if request.prefetch is None else [_prefetch(request.prefetch)],
        with_vector=request.with_vector,
        with_payload=request.with_payload,
        filter=to_filter(request.filter),
        score_threshold=request.score_threshold,
        params=to_params(request.params),
    )


def to_params(params: models.SearchParams | None) -> qdrant_edge.SearchParams | None:
    """How to search: exactness, HNSW's width, quantization, and the corpus of the IDF."""
    if params is None:
        return None
    quantization, acorn = params.quantization, getattr(params, "acorn", None)
    idf = getattr(params, "idf", None)  # a corpus, or `IdfScope.GLOBAL`
    return qdrant_edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        quantization=quantization
        and qdrant_edge.QuantizationSearchParams(
            bool(quantization.ignore), quantization.rescore, quantization.oversampling
        ),
        indexed_only=bool(params.indexed_only),
        acorn=acorn and qdrant_edge.AcornSearchParams(bool(acorn.enable), acorn.max_selectivity),
        idf=idf and qdrant_edge.IdfParams(to_filter(getattr(idf, "corpus", None))),
    )


def _prefetch(prefetch: Any) -> qdrant_edge.Prefetch:
    if not isinstance(prefetch, models.Prefetch):
        raise lacking("several prefetches of one query")
    return qdrant_edge.Prefetch(
        limit=_LIMIT if prefetch.limit is None else prefetch.limit,
        query=_query(prefetch.query, prefetch.using),
        prefetches=[] if prefetch.prefetch is None else [_prefetch(prefetch.prefetch)],
        params=to_params(prefetch.params),
        filter=to_filter(prefetch.filter),
        score_threshold=prefetch.score_threshold,
    )


def _query(query: Any, using: str | None) -> Any:
    match query:
        case None:
            return None
        case models.NearestQuery(nearest=list() as vector) | (list() as vector):
            return qdrant_edge.Query.Nearest(vector, using=using)
        case models.NearestQuery(nearest=models.SparseVector() as words):
            return qdrant_edge.Query.Nearest(
                qdrant_edge.SparseVector(words.indices, words.values), using=using
            )
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
