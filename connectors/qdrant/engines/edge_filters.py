"""Filters of qdrant-client in the classes of Qdrant Edge.

Classes are looked up by name, because the oldest supported qdrant-client has not all of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import qdrant_edge
from qdrant_client import models

from surprise_rerank.errors import DataError, StoreError

Translation: TypeAlias = Callable[[Any], Any]


def to_filter(query_filter: models.Filter | None) -> qdrant_edge.Filter | None:
    """A filter, with every condition in it.

    A `FieldCondition` that sets several tests holds where any of them does, on Edge as on a server; in the
    client's local mode only the first one counts. Write one condition per test.

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


def optional(translate: Translation, value: Any) -> Any:
    """The translation of a value that may be None."""
    return None if value is None else translate(value)


def to_moment(value: datetime.date | None) -> str | None:
    """RFC 3339; a time without a zone is one in UTC, as on a server."""
    return None if value is None else value.isoformat()


def to_place(point: models.GeoPoint) -> qdrant_edge.GeoPoint:
    """A place on earth."""
    return qdrant_edge.GeoPoint(point.lon, point.lat)


def to_condition(condition: Any) -> Any:
    """A condition of any kind.

    Raises:
        StoreError: if it is of a kind that Edge does not have.
    """
    return _translated(condition, _CONDITIONS, "condition")


def _translated(value: Any, table: Mapping[str, Translation], kind: str) -> Any:
    translate = table.get(type(value).__name__)
    if translate is None:
        raise lacking(f"{kind} of the class {type(value).__name__}")
    return translate(value)


def _filter(query_filter: models.Filter) -> qdrant_edge.Filter:
    return qdrant_edge.Filter(
        must=_conditions(query_filter.must),
        should=_conditions(query_filter.should),
        must_not=_conditions(query_filter.must_not),
        min_should=optional(_min_should, query_filter.min_should),
    )


def _conditions(conditions: Any) -> list[Any] | None:
    if conditions is None:
        return None
    return [to_condition(c) for c in (conditions if isinstance(conditions, list) else [conditions])]


def _min_should(least: models.MinShould) -> qdrant_edge.MinShould:
    return qdrant_edge.MinShould([to_condition(c) for c in least.conditions], least.min_count)


def _field(condition: models.FieldCondition) -> qdrant_edge.FieldCondition:
    return qdrant_edge.FieldCondition(
        condition.key,
        match=optional(_match, condition.match),
        range=optional(_range, condition.range),
        geo_bounding_box=optional(_box, condition.geo_bounding_box),
        geo_radius=optional(_radius, condition.geo_radius),
        geo_polygon=optional(_polygon, condition.geo_polygon),
        values_count=optional(_values_count, condition.values_count),
        is_empty=condition.is_empty,
        is_null=condition.is_null,
    )


def _match(match: Any) -> Any:
    return _translated(match, _MATCHES, "match")


def _range(bounds: models.Range | models.DatetimeRange) -> Any:
    if isinstance(bounds, models.Range):
        return qdrant_edge.RangeFloat(gte=bounds.gte, gt=bounds.gt, lte=bounds.lte, lt=bounds.lt)
    return qdrant_edge.RangeDateTime(
        gte=to_moment(bounds.gte), gt=to_moment(bounds.gt), lte=to_moment(bounds.lte), lt=to_moment(bounds.lt)
    )


def _values_count(bounds: models.ValuesCount) -> qdrant_edge.ValuesCount:
    return qdrant_edge.ValuesCount(lt=bounds.lt, gt=bounds.gt, lte=bounds.lte, gte=bounds.gte)


def _box(box: models.GeoBoundingBox) -> qdrant_edge.GeoBoundingBox:
    return qdrant_edge.GeoBoundingBox(to_place(box.top_left), to_place(box.bottom_right))


def _radius(circle: models.GeoRadius) -> qdrant_edge.GeoRadius:
    return qdrant_edge.GeoRadius(to_place(circle.center), circle.radius)


def _polygon(polygon: models.GeoPolygon) -> qdrant_edge.GeoPolygon:
    def ring(line: models.GeoLineString) -> list[qdrant_edge.GeoPoint]:
        return [to_place(point) for point in line.points]

    return qdrant_edge.GeoPolygon(ring(polygon.exterior), [ring(line) for line in polygon.interiors or ()])


def _value(match: models.MatchValue) -> qdrant_edge.MatchValue:
    # Edge takes True for 1, which no boolean in a payload is equal to; it knows numpy's as what they are.
    value: Any = np.bool_(match.value) if isinstance(match.value, bool) else match.value
    return qdrant_edge.MatchValue(value)


def _has_id(condition: models.HasIdCondition) -> Any:
    try:
        return qdrant_edge.HasIdCondition(set(condition.has_id))
    except ValueError as error:
        raise StoreError(f"has_id takes UUIDs or numbers of points: {error}") from error


def _nested(condition: models.NestedCondition) -> qdrant_edge.NestedCondition:
    return qdrant_edge.NestedCondition(condition.nested.key, _filter(condition.nested.filter))


_MATCHES: Mapping[str, Translation] = {
    "MatchValue": _value,
    "MatchText": lambda m: qdrant_edge.MatchText(m.text),
    "MatchTextAny": lambda m: qdrant_edge.MatchTextAny(m.text_any),
    "MatchPhrase": lambda m: qdrant_edge.MatchPhrase(m.phrase),
    "MatchPrefix": lambda m: qdrant_edge.MatchPrefix(m.prefix),
    "MatchSubstring": lambda m: qdrant_edge.MatchSubstring(m.substring),
    "MatchAny": lambda m: qdrant_edge.MatchAny(m.any),
    "MatchExcept": lambda m: qdrant_edge.MatchExcept(m.except_),
}
_CONDITIONS: Mapping[str, Translation] = {
    "FieldCondition": _field,
    "IsEmptyCondition": lambda c: qdrant_edge.IsEmptyCondition(c.is_empty.key),
    "IsNullCondition": lambda c: qdrant_edge.IsNullCondition(c.is_null.key),
    "HasIdCondition": _has_id,
    "HasVectorCondition": lambda c: qdrant_edge.HasVectorCondition(c.has_vector),
    "SliceCondition": lambda c: qdrant_edge.SliceCondition(c.slice.total, c.slice.index),  # type: ignore[attr-defined]
    "NestedCondition": _nested,
    "Filter": _filter,
}
