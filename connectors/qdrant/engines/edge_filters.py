"""Filters of qdrant-client in the classes of Qdrant Edge.

Edge's classes have the names and the arguments of qdrant-client's, but for a few. Classes are looked up by
name, because the oldest supported qdrant-client has not all of them.
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
