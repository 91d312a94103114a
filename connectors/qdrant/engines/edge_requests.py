"""The index's own requests in the classes of Qdrant Edge, with a user's filters and search parameters.

That is the nearest by a vector, or the most diverse of these, and a formula over the stage before. Everything
else is refused by name.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import qdrant_edge
from pydantic import BaseModel
from qdrant_client import models

from surprise_rerank.errors import DataError, StoreError

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
    """The error for what Edge does not have."""
    return StoreError(f"Qdrant Edge has no {thing}; a Qdrant server has, so open the index with its url")


def _translated(value: Any) -> Any:
    """A part of a filter: Edge's object of the same name and the same parts, or a plain value as it is."""
    kind = type(value).__name__
    if kind in _OTHERWISE:
        return _OTHERWISE[kind](value)
    if isinstance(value, list):
        return [_translated(own) for own in value]
    if not isinstance(value, BaseModel):
        return value
    made = getattr(qdrant_edge, kind, None)
    if made is None:
        raise lacking(f"condition of the class {kind}")
    parts = dict(value)
    own = next(iter(parts.values()))
    if len(parts) == 1 and isinstance(own, BaseModel):  # what is empty, a slice, what is nested
        parts = dict(own)
    return made(**{name: _translated(part) for name, part in parts.items()})


def _filter(query_filter: models.Filter) -> qdrant_edge.Filter:
    """A filter; its conditions may be one that is in no list."""
    parts = {
        name: _translated(own if isinstance(own, list) or name == "min_should" else [own])
        for name, own in query_filter
        if own is not None
    }
    return qdrant_edge.Filter(**parts)


def _match_value(match: models.MatchValue) -> qdrant_edge.MatchValue:
    # Edge takes True for 1, which no boolean in a payload is equal to; it knows numpy's as what they are.
    value: Any = np.bool_(match.value) if isinstance(match.value, bool) else match.value
    return qdrant_edge.MatchValue(value)


def _dates(bounds: models.DatetimeRange) -> qdrant_edge.RangeDateTime:
    """RFC 3339; a time without a zone is one in UTC, as on a server."""
    moments: dict[str, datetime.date] = {name: own for name, own in bounds if own is not None}
    return qdrant_edge.RangeDateTime(**{name: own.isoformat() for name, own in moments.items()})


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
