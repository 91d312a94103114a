"""Haystack's metadata filters as those of qdrant-client.

A filter is a comparison, `{"field": "meta.year", "operator": ">=", "value": 2020}`, or a logic operator over
others, `{"operator": "AND", "conditions": [...]}`. Fields are those of a Haystack document: `id`, or
`meta.KEY`, which an index keeps as `metadata.KEY` and qdrant-haystack as `meta.KEY`; a bare KEY that is no
other field is metadata too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank.errors import DataError, did_you_mean

_Comparison: TypeAlias = Callable[[str, Any], models.Filter]

# What else a Haystack document has: an index has other vectors and scores, and content is not filtered by.
_UNFILTERED = ("content", "blob", "meta", "score", "embedding", "sparse_embedding")
# What needs no quotes in a path of Qdrant.
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
# Qdrant compares ranges in float64, which tells all integers below this one apart.
_EXACT = 2**53


def to_qdrant_filter(filters: Mapping[str, Any], root: str = "metadata", id_key: str = "id") -> models.Filter:
    """The same documents, for Qdrant; as in Haystack, only what has a value is greater or less than another.

    Args:
        filters: Haystack's.
        root: the key of the metadata in the payload; empty where they are the payload.
        id_key: the key of a document's id; empty where the point's own id is it.

    Raises:
        DataError: if it is no filter, or compares what Qdrant cannot.
    """
    if not isinstance(filters, Mapping):
        raise DataError(f"a filter must be a dictionary, got {type(filters).__name__}")
    if "field" in filters:
        return _comparison(filters, root, id_key)
    _require(filters, "operator", "conditions")
    if not isinstance(filters["conditions"], list | tuple):
        raise DataError(f"conditions must be a list of filters, got {type(filters['conditions']).__name__}")
    conditions: list[models.Condition] = [
        to_qdrant_filter(condition, root, id_key) for condition in filters["conditions"]
    ]
    match filters["operator"]:
        case "AND":
            return models.Filter(must=conditions)
        case "OR":
            return _any(conditions)
        case "NOT":
            return models.Filter(must_not=[models.Filter(must=conditions)])
        case other:
            raise DataError(f"the logic operator {other!r} is not known; choose of AND, OR, NOT")


def metadata_path(key: str, root: str) -> str:
    """The path in a point: its parts are keys, whatever Qdrant's own syntax makes of their characters.

    Args:
        key: of the metadata, with a dot for a key inside an object.
        root: the key of the metadata in the payload; empty where they are the payload.

    Raises:
        DataError: if a part is empty, or has a character that Qdrant cannot write.
    """
    parts = key.split(".")
    # Qdrant has no way to write these two characters.
    if not all(parts) or any(mark in key for mark in '"\\'):
        raise DataError(f'the field {key!r} has an empty part, a " or a \\; give keys joined by dots')
    quoted = (part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)
    return ".".join([*([root] if root else []), *quoted])


def _comparison(condition: Mapping[str, Any], root: str, id_key: str) -> models.Filter:
    _require(condition, "operator", "value")
    operator = condition["operator"]
    compare = _COMPARISONS.get(operator)
    if compare is None:
        hint = did_you_mean(str(operator), _COMPARISONS)
        raise DataError(f"the operator {operator!r} is not known; {hint}choose of {', '.join(_COMPARISONS)}")
    return compare(_key(condition["field"], root, id_key), condition["value"])


def _require(filters: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name not in filters:
            raise DataError(
                f"the filter has {', '.join(map(repr, filters)) or 'nothing'}, but no {name!r}; a comparison "
                "has field, operator and value, a logic operator has operator and conditions"
            )


def _key(field: Any, root: str, id_key: str) -> str:
    """The path in a point."""
    if not isinstance(field, str):
        raise DataError(f"the field of a filter must be a string, got {type(field).__name__}")
    if field == "id":
        if id_key:
            return id_key
        raise DataError("documents have the ids of points here, which no field has; filter by 'meta.KEY'")
    if field in _UNFILTERED:
        raise DataError(
            f"an index does not filter by {field!r} of a document; take 'id' or 'meta.KEY' (metadata of this "
            f"name is 'meta.{field}')"
        )
    return metadata_path(field.removeprefix("meta."), root)


def _equal(key: str, value: Any) -> models.Filter:
    condition: models.Condition
    if value is None:
        condition = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
    elif isinstance(value, bool | str):
        condition = _match(key, value)
    elif isinstance(value, int):
        condition = _equal_integer(key, value)
    elif isinstance(value, float):
        condition = _between(key, value)
    else:
        raise DataError(f"{key} is compared with a {type(value).__name__}; give a string, number or boolean")
    return models.Filter(must=[condition])


def _equal_integer(key: str, value: int) -> models.Condition:
    """A match finds stored integers only; in Haystack 2 equals 2.0."""
    if not -(2**63) <= value < 2**63:
        raise DataError(f"{key} is compared with an integer of more than 64 bits; give a float, or a string")
    match = _match(key, value)
    return _any([match, _between(key, value)]) if abs(value) < _EXACT else match


def _match(key: str, value: bool | int | str) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _between(key: str, value: float) -> models.FieldCondition:
    return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))


def _in(key: str, values: Any) -> models.Filter:
    if not isinstance(values, list):
        raise DataError(f"{key} is looked for in a {type(values).__name__}; give a list")
    return _any([_equal(key, value) for value in values])


def _any(conditions: list[models.Condition]) -> models.Filter:
    # No condition at all would hold for every document.
    return models.Filter(should=conditions) if conditions else _not(models.Filter())


def _not(condition: models.Filter) -> models.Filter:
    return models.Filter(must_not=[condition])


def _range(bound: str) -> _Comparison:
    def compare(key: str, value: Any) -> models.Filter:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return models.Filter(
                must=[models.FieldCondition(key=key, range=models.Range(**{bound: float(value)}))]
            )
        limits = models.DatetimeRange(**{bound: _moment(key, value)})
        return models.Filter(must=[models.FieldCondition(key=key, range=limits)])

    return compare


def _moment(key: str, value: Any) -> datetime.date:
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{key} is greater or less than {value!r}; give a number, or a date such as '2026-01-31'"
        ) from error


_COMPARISONS: dict[str, _Comparison] = {
    "==": _equal,
    "!=": lambda key, value: _not(_equal(key, value)),
    ">": _range("gt"),
    ">=": _range("gte"),
    "<": _range("lt"),
    "<=": _range("lte"),
    "in": _in,
    "not in": lambda key, values: _not(_in(key, values)),
}
