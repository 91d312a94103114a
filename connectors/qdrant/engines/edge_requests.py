"""Requests of qdrant-client in the classes of Qdrant Edge.

Everything that qdrant-client's models can ask for is translated, as far as Edge can do it. It sees one shard
and no inference service: what needs another collection, a point's id in place of its vector, or a text to be
encoded, is refused. Filters are in `edge_filters.py`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import qdrant_edge
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.edge_filters import (
    lacking,
    optional,
    to_condition,
    to_filter,
    to_moment,
    to_place,
)

_LIMIT = 10  # of a request or a prefetch that sets none, as on a server
_RRF_K = 2  # a server's default; Edge has none
_DIVERSITY = 0.5  # a server's default

__all__ = ["to_filter", "to_params", "to_query_request"]


def to_query_request(request: models.QueryRequest) -> qdrant_edge.QueryRequest:
    """A request as Edge's `EdgeShard.query` and `QueryBatchRequest` take it.

    As on a server, a `limit` that is not set is 10, and payloads and vectors come only when asked for.

    Raises:
        StoreError: if it asks for something that Edge does not have.
    """
    if request.lookup_from is not None:
        raise lacking("lookup_from: it has one collection")
    if request.shard_key is not None:
        raise lacking("shard keys: it has one shard")
    limit = _LIMIT if request.limit is None else request.limit
    return qdrant_edge.QueryRequest(
        limit=limit,
        offset=request.offset,
        query=_query(request.query, request.using, limit),
        prefetches=_prefetches(request.prefetch),
        with_vector=request.with_vector,
        with_payload=_payload_selector(request.with_payload),
        filter=to_filter(request.filter),
        score_threshold=request.score_threshold,
        params=to_params(request.params),
    )


def to_params(params: models.SearchParams | None) -> qdrant_edge.SearchParams | None:
    """How to search: exactness, HNSW's width, quantization, and the corpus of the IDF."""
    if params is None:
        return None
    return qdrant_edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        quantization=optional(_quantization, params.quantization),
        indexed_only=bool(params.indexed_only),
        acorn=optional(_acorn, getattr(params, "acorn", None)),
        idf=optional(_idf, getattr(params, "idf", None)),
    )


# Requests.


def _prefetches(prefetch: models.Prefetch | list[models.Prefetch] | None) -> list[qdrant_edge.Prefetch]:
    if prefetch is None:
        return []
    return [_prefetch(p) for p in (prefetch if isinstance(prefetch, list) else [prefetch])]


def _prefetch(prefetch: models.Prefetch) -> qdrant_edge.Prefetch:
    if prefetch.lookup_from is not None:
        raise lacking("lookup_from: it has one collection")
    limit = _LIMIT if prefetch.limit is None else prefetch.limit
    return qdrant_edge.Prefetch(
        limit=limit,
        query=_query(prefetch.query, prefetch.using, limit),
        prefetches=_prefetches(prefetch.prefetch),
        params=to_params(prefetch.params),
        filter=to_filter(prefetch.filter),
        score_threshold=prefetch.score_threshold,
    )


def _payload_selector(selector: Any) -> Any:
    """Edge takes True, False and lists of fields as they are."""
    if isinstance(selector, models.PayloadSelectorInclude):
        return qdrant_edge.PayloadSelector.Include(selector.include)
    if isinstance(selector, models.PayloadSelectorExclude):
        return qdrant_edge.PayloadSelector.Exclude(selector.exclude)
    return selector


def _quantization(params: models.QuantizationSearchParams) -> qdrant_edge.QuantizationSearchParams:
    return qdrant_edge.QuantizationSearchParams(bool(params.ignore), params.rescore, params.oversampling)


def _acorn(params: Any) -> qdrant_edge.AcornSearchParams:
    return qdrant_edge.AcornSearchParams(bool(params.enable), params.max_selectivity)


def _idf(params: Any) -> qdrant_edge.IdfParams:
    """A corpus, or `IdfScope.GLOBAL`."""
    return qdrant_edge.IdfParams(to_filter(getattr(params, "corpus", None)))


# Queries: (query, name of the vector, limit of the request) -> Edge's.


def _query(query: Any, using: str | None, limit: int) -> Any:
    if query is None:
        return None
    name = type(query).__name__
    if name in _QUERIES:
        return _QUERIES[name](query, using, limit)
    return qdrant_edge.Query.Nearest(_vector(query), using=using)


def _vector(vector: Any) -> Any:
    """Edge takes lists of numbers, and lists of those, as they are."""
    if isinstance(vector, list):
        return vector
    if isinstance(vector, models.SparseVector):
        return qdrant_edge.SparseVector(vector.indices, vector.values)
    if isinstance(vector, (models.Document, models.Image, models.InferenceObject)):
        raise lacking(f"inference of a {type(vector).__name__}")
    raise lacking("query by a point's id: give its vector")


def _vectors(vectors: list[Any] | None) -> list[Any]:
    return [_vector(vector) for vector in vectors or ()]


def _nearest(query: models.NearestQuery, using: str | None, limit: int) -> Any:
    mmr = getattr(query, "mmr", None)
    if mmr is None:
        return qdrant_edge.Query.Nearest(_vector(query.nearest), using=using)
    return qdrant_edge.Mmr(
        _vector(query.nearest),
        1.0 - (_DIVERSITY if mmr.diversity is None else mmr.diversity),
        limit if mmr.candidates_limit is None else mmr.candidates_limit,
        using=using,
    )


def _formula(query: models.FormulaQuery, using: str | None, limit: int) -> Any:
    return qdrant_edge.Formula(_expression(query.formula), query.defaults or None)


def _fusion(query: models.FusionQuery, using: str | None, limit: int) -> Any:
    if query.fusion == models.Fusion.DBSF:
        return qdrant_edge.Fusion.Dbsf()
    return qdrant_edge.Fusion.Rrf(k=_RRF_K)


def _rrf(query: Any, using: str | None, limit: int) -> Any:
    k = query.rrf.k
    weights = getattr(query.rrf, "weights", None)
    return qdrant_edge.Fusion.Rrf(k=_RRF_K if k is None else k, weights=weights)


def _recommend(query: models.RecommendQuery, using: str | None, limit: int) -> Any:
    examples = query.recommend
    if examples.strategy == models.RecommendStrategy.BEST_SCORE:
        recommend = qdrant_edge.Query.RecommendBestScore
    elif examples.strategy == models.RecommendStrategy.SUM_SCORES:
        recommend = qdrant_edge.Query.RecommendSumScores
    else:
        raise lacking("recommendation by an average vector: search for the average")
    pair = qdrant_edge.RecommendQuery(_vectors(examples.positive), _vectors(examples.negative))
    return recommend(pair, using=using)


def _pairs(context: models.ContextPair | list[models.ContextPair] | None) -> list[qdrant_edge.ContextPair]:
    pairs = context if isinstance(context, list) else [context] if context else []
    return [qdrant_edge.ContextPair(_vector(pair.positive), _vector(pair.negative)) for pair in pairs]


def _discover(query: models.DiscoverQuery, using: str | None, limit: int) -> Any:
    target = _vector(query.discover.target)
    pairs = _pairs(query.discover.context)
    return qdrant_edge.Query.Discover(qdrant_edge.DiscoverQuery(target, pairs), using=using)


def _context(query: models.ContextQuery, using: str | None, limit: int) -> Any:
    return qdrant_edge.Query.Context(qdrant_edge.ContextQuery(_pairs(query.context)), using=using)


def _feedback(query: Any, using: str | None, limit: int) -> Any:
    given = query.relevance_feedback
    naive = given.strategy.naive
    items = [qdrant_edge.FeedbackItem(_vector(item.example), item.score) for item in given.feedback]
    strategy = qdrant_edge.NaiveFeedbackStrategy(naive.a, naive.b, naive.c)
    asked = qdrant_edge.FeedbackNaiveQuery(_vector(given.target), items, strategy)
    return qdrant_edge.Query.FeedbackNaive(asked, using=using)


def _order_by(query: models.OrderByQuery, using: str | None, limit: int) -> Any:
    order = query.order_by
    if isinstance(order, str):
        return qdrant_edge.OrderBy(order)
    start: Any = order.start_from
    descending = order.direction == models.Direction.DESC
    return qdrant_edge.OrderBy(
        order.key,
        qdrant_edge.Direction.Desc if descending else qdrant_edge.Direction.Asc,
        to_moment(start) if isinstance(start, datetime.date) else start,
    )


def _sample(query: models.SampleQuery, using: str | None, limit: int) -> Any:
    return qdrant_edge.Sample.Random


def _text(query: Any, using: str | None, limit: int) -> Any:
    """BM25 over a field's text index; `using` is the field."""
    if isinstance(query.text, str):
        return qdrant_edge.TextQuery(using or "", query.text)
    scoring = query.text.scoring
    params = scoring and qdrant_edge.Bm25Params(scoring.bm25.k, scoring.bm25.b)
    return qdrant_edge.TextQuery(using or "", query.text.query, params)


_QUERIES: Mapping[str, Callable[[Any, str | None, int], Any]] = {
    "NearestQuery": _nearest,
    "FormulaQuery": _formula,
    "FusionQuery": _fusion,
    "RrfQuery": _rrf,
    "RecommendQuery": _recommend,
    "DiscoverQuery": _discover,
    "ContextQuery": _context,
    "RelevanceFeedbackQuery": _feedback,
    "OrderByQuery": _order_by,
    "SampleQuery": _sample,
    "TextQuery": _text,
}


# Formulas.


def _expression(value: Any) -> qdrant_edge.Expression:
    """An expression; a condition counts 1 where it holds, and 0 elsewhere."""
    translate = _EXPRESSIONS.get(type(value).__name__)
    if translate is None:
        return qdrant_edge.Expression.Condition(to_condition(value))
    return translate(value)


def _expressions(values: list[Any]) -> list[qdrant_edge.Expression]:
    return [_expression(value) for value in values]


def _divide(value: models.DivExpression) -> qdrant_edge.Expression:
    terms = value.div
    # Not optional, in spite of Edge's stubs; nor are a decay's.
    return qdrant_edge.Expression.Div(
        _expression(terms.left), _expression(terms.right), terms.by_zero_default
    )


def _decay(kind: qdrant_edge.DecayKind, value: models.DecayParamsExpression) -> qdrant_edge.Expression:
    return qdrant_edge.Expression.Decay(
        kind, _expression(value.x), optional(_expression, value.target), value.midpoint, value.scale
    )


def _geo_distance(value: models.GeoDistance) -> qdrant_edge.Expression:
    terms = value.geo_distance
    return qdrant_edge.Expression.GeoDistance(to_place(terms.origin), terms.to)


_E = qdrant_edge.Expression
_KIND = qdrant_edge.DecayKind
_EXPRESSIONS: Mapping[str, Callable[[Any], qdrant_edge.Expression]] = {
    "int": lambda e: _E.Constant(float(e)),
    "float": lambda e: _E.Constant(e),
    "str": lambda e: _E.Variable(e),
    "GeoDistance": _geo_distance,
    "DatetimeExpression": lambda e: _E.Datetime(e.datetime),
    "DatetimeKeyExpression": lambda e: _E.DatetimeKey(e.datetime_key),
    "MultExpression": lambda e: _E.Mult(_expressions(e.mult)),
    "SumExpression": lambda e: _E.Sum(_expressions(e.sum)),
    "MaxExpression": lambda e: _E.Max(_expressions(e.max)),
    "MinExpression": lambda e: _E.Min(_expressions(e.min)),
    "NegExpression": lambda e: _E.Neg(_expression(e.neg)),
    "AbsExpression": lambda e: _E.Abs(_expression(e.abs)),
    "DivExpression": _divide,
    "SqrtExpression": lambda e: _E.Sqrt(_expression(e.sqrt)),
    "PowExpression": lambda e: _E.Pow(_expression(e.pow.base), _expression(e.pow.exponent)),
    "ExpExpression": lambda e: _E.Exp(_expression(e.exp)),
    "Log10Expression": lambda e: _E.Log10(_expression(e.log10)),
    "LnExpression": lambda e: _E.Ln(_expression(e.ln)),
    "AcoshExpression": lambda e: _E.Acosh(_expression(e.acosh)),
    "LinDecayExpression": lambda e: _decay(_KIND.Lin, e.lin_decay),
    "ExpDecayExpression": lambda e: _decay(_KIND.Exp, e.exp_decay),
    "GaussDecayExpression": lambda e: _decay(_KIND.Gauss, e.gauss_decay),
}
