"""Filters of metadata of Haystack and LlamaIndex, as those of Qdrant; what these cannot say is refused.

Haystack's is a comparison, `{"field": "meta.year", "operator": ">=", "value": 2020}`, or a logic operator
over others, `{"operator": "AND", "conditions": [...]}`. Its fields are `id`, or `meta.KEY`; a bare KEY that
is no other field of a document is metadata too. LlamaIndex's are `MetadataFilters`, read by attributes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.qdrant._payloads import quoted

_Comparison: TypeAlias = Callable[[str, Any], models.Condition]

# What else a Haystack document has: an index has other vectors and scores, and content is not filtered by.
_UNFILTERED = ("content", "blob", "meta", "score", "embedding", "sparse_embedding")
# Qdrant compares ranges in float64, which tells all integers below this one apart.
_EXACT = 2**53


def from_haystack(filters: Mapping[str, Any], root: str = "metadata", id_key: str = "id") -> models.Filter:
    """The same documents as in Haystack, where only what has a value is greater or less than another.

    `root` is the key of the metadata in the payload, empty where they are the payload; `id_key` that of a
    document's id, empty where the point's own id is it.
    """
    border.mapping("a filter", filters)
    expected = ("field", "operator", "value") if "field" in filters else ("operator", "conditions")
    if not set(expected) <= set(filters):
        raise DataError(
            f"the filter has {', '.join(map(repr, filters)) or 'nothing'}; a comparison has field, operator "
            "and value, a logic operator has operator and conditions"
        )
    operator = filters["operator"]
    if "field" in filters:
        compare = _HAYSTACK[border.choice("operator", operator, _HAYSTACK)]
        return models.Filter(must=[compare(_key(filters["field"], root, id_key), filters["value"])])
    if not isinstance(filters["conditions"], list | tuple):
        border.refuse(
            "conditions", filters["conditions"], "a list of filters", "put a single one into a list"
        )
    conditions: list[models.Condition] = [
        from_haystack(condition, root, id_key) for condition in filters["conditions"]
    ]
    match border.choice("operator", operator, ("AND", "OR", "NOT")):
        case "AND":
            return models.Filter(must=conditions)
        case "OR":
            return _any(conditions)
    return _not(models.Filter(must=conditions))


def from_llama_index(filters: Any, root: str = "metadata") -> models.Filter:
    """The same nodes as in LlamaIndex's own Qdrant store.

    As there, `!=` and `nin` hold only where there is a value, and a string is a list of values with commas
    between them for `in` and `nin`. `any`, `all` and `contains` are understood, too. `root` is that of
    `from_haystack`.
    """
    conditions: list[models.Condition] = [
        from_llama_index(part, root) if hasattr(part, "filters") else _node_condition(part, root)
        for part in filters.filters
        if getattr(part, "filters", True)  # none in brackets is no condition
    ]
    kind = {"or": "should", "not": "must_not"}.get(filters.condition, "must")
    return models.Filter.model_validate({kind: conditions})


def _path(key: str, root: str) -> str:
    """The path in a point: its parts are keys, whatever Qdrant's own syntax makes of their characters."""
    parts = key.split(".")
    # Qdrant has no way to write these two characters.
    if not all(parts) or any(mark in key for mark in '"\\'):
        border.refuse("a filter's field", key, 'keys with no " and no \\ in them', "join them by single dots")
    return ".".join([*([root] if root else []), *map(quoted, parts)])


def _key(field: Any, root: str, id_key: str) -> str:
    border.text("the field of a filter", field)
    if field == "id" and not id_key:
        raise DataError("documents have the ids of points here, which no field has; filter by 'meta.KEY'")
    if field in _UNFILTERED:
        raise DataError(
            f"an index does not filter by {field!r} of a document; take 'id' or 'meta.KEY' (metadata of this "
            f"name is 'meta.{field}')"
        )
    return id_key if field == "id" else _path(field.removeprefix("meta."), root)


def _node_condition(node: Any, root: str) -> models.Condition:
    key = _path(node.key, root)
    try:
        return _LLAMA_INDEX[node.operator](key, node.value)
    except ValueError as error:  # pydantic's, of Qdrant's own models
        raise DataError(
            f"the filter {node.key!r} {node.operator.value} {node.value!r} is none of Qdrant; a list "
            "goes with in, nin, any and all, a number with <, <=, > and >=, a text or a whole number with !="
        ) from error


_ONE = "compare with one value, or with several by `in`"


def _equal(key: str, value: Any) -> models.Condition:
    """A match finds stored integers only; a range finds 2.0 where 2 is asked for."""
    if value is None:
        return _empty(key, value)
    if isinstance(value, float) or (type(value) is int and abs(value) < _EXACT):
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    if not isinstance(value, bool | str | int) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        border.refuse(f"the value of {key}", value, "a string, a boolean, or a number of 64 bits", _ONE)
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _empty(key: str, value: Any) -> models.Condition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))


def _in(key: str, values: Any) -> models.Filter:
    if not isinstance(values, list):
        border.refuse(f"the values of {key}", values, "a list", "put a single one into a list")
    return _any([_equal(key, value) for value in values])


def _any(conditions: list[models.Condition]) -> models.Filter:
    # No condition at all would hold for every document.
    return models.Filter(should=conditions) if conditions else _not(models.Filter())


def _not(condition: models.Condition) -> models.Filter:
    return models.Filter(must_not=[condition])


def _range(bound: str) -> _Comparison:
    def compare(key: str, value: Any) -> models.Condition:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return models.FieldCondition(key=key, range=models.Range(**{bound: float(value)}))
        try:
            moment = value if isinstance(value, datetime.date) else datetime.datetime.fromisoformat(value)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{key} is greater or less than {value!r}; give a number, or a date such as '2026-01-31'"
            ) from error
        return models.FieldCondition(key=key, range=models.DatetimeRange(**{bound: moment}))

    return compare


def _except(key: str, values: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchExcept(**{"except": values}))


def _any_of(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=_listed(value)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else str(value).split(",")


def _text(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchText(text=value))


_RANGES = {">": _range("gt"), ">=": _range("gte"), "<": _range("lt"), "<=": _range("lte")}
_HAYSTACK: Mapping[str, _Comparison] = {
    **_RANGES,
    "==": _equal,
    "!=": lambda key, value: _not(_equal(key, value)),
    "in": _in,
    "not in": lambda key, values: _not(_in(key, values)),
}
_LLAMA_INDEX: Mapping[str, _Comparison] = {
    **_RANGES,
    "==": _equal,
    "!=": lambda key, value: _except(key, [value]),
    "in": _any_of,
    "any": _any_of,
    "nin": lambda key, value: _except(key, _listed(value)),
    "all": lambda key, value: models.Filter(must=[_equal(key, member) for member in _listed(value)]),
    "contains": _equal,
    "text_match": _text,
    "text_match_insensitive": _text,
    "is_empty": _empty,
}
