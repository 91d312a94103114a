"""Haystack's metadata filters as those of qdrant-client.

A filter is a comparison, `{"field": "meta.year", "operator": ">=", "value": 2020}`, or a logic operator over
others, `{"operator": "AND", "conditions": [...]}`. Fields are those of a Haystack document: `id`, or
`meta.KEY`, which an index keeps as `metadata.KEY`; a bare KEY is metadata too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank.errors import DataError, did_you_mean

_Comparison: TypeAlias = Callable[[str, Any], models.Filter]


def to_qdrant_filter(filters: Mapping[str, Any]) -> models.Filter:
    """The same documents, for Qdrant; as in Haystack, only what has a value is greater or less than another.

    Raises:
        DataError: if it is no filter, or compares what Qdrant cannot.
    """
    if not isinstance(filters, Mapping):
        raise DataError(f"a filter must be a dictionary, got {type(filters).__name__}")
    if "field" in filters:
        return _comparison(filters)
    _require(filters, "operator", "conditions")
    conditions: list[models.Condition] = [to_qdrant_filter(condition) for condition in filters["conditions"]]
    match filters["operator"]:
        case "AND":
            return models.Filter(must=conditions)
        case "OR":
            return models.Filter(should=conditions)
        case "NOT":
            return models.Filter(must_not=[models.Filter(must=conditions)])
        case other:
            raise DataError(f"the logic operator {other!r} is not known; choose of AND, OR, NOT")


def _comparison(condition: Mapping[str, Any]) -> models.Filter:
    _require(condition, "operator", "value")
    operator = condition["operator"]
    compare = _COMPARISONS.get(operator)
    if compare is None:
        hint = did_you_mean(str(operator), _COMPARISONS)
        raise DataError(f"the operator {operator!r} is not known; {hint}choose of {', '.join(_COMPARISONS)}")
    return compare(_key(condition["field"]), condition["value"])


def _require(filters: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name not in filters:
            raise DataError(
                f"the filter has {', '.join(map(repr, filters)) or 'nothing'}, but no {name!r}; a comparison "
                "has field, operator and value, a logic operator has operator and conditions"
            )


def _key(field: str) -> str:
    return field if field == "id" else f"metadata.{field.removeprefix('meta.')}"


def _equal(key: str, value: Any) -> models.Filter:
    condition: models.Condition
    if value is None:
        condition = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
    elif isinstance(value, bool | int | str):
        condition = models.FieldCondition(key=key, match=models.MatchValue(value=value))
    elif isinstance(value, float):
        condition = models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    else:
        raise DataError(f"{key} is compared with a {type(value).__name__}; give a string, number or boolean")
    return models.Filter(must=[condition])


def _in(key: str, values: Any) -> models.Filter:
    if not isinstance(values, list):
        raise DataError(f"{key} is looked for in a {type(values).__name__}; give a list")
    # No condition at all would hold for every document.
    return models.Filter(should=[_equal(key, value) for value in values]) if values else _not(models.Filter())


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
