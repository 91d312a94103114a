"""LlamaIndex's metadata filters as those of qdrant-client, with what its own Qdrant store means by them.

`MetadataFilters` are read by their attributes, and LlamaIndex is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank.connectors.haystack_filters import metadata_path
from surprise_rerank.errors import DataError

_Comparison: TypeAlias = Callable[[str, Any], models.Condition]


def to_qdrant_filter(filters: Any, root: str = "metadata") -> models.Filter:
    """The same documents, for Qdrant.

    As in LlamaIndex's store, `!=` and `nin` hold only where there is a value, and a string is a list of
    values with commas between them for `in` and `nin`. `any`, `all` and `contains` are understood, too.

    Args:
        filters: `MetadataFilters`.
        root: the key of the metadata in the payload; empty where they are the payload.

    Raises:
        DataError: if a value does not go with its operator.
    """
    conditions: list[models.Condition] = [
        to_qdrant_filter(own, root) if hasattr(own, "filters") else _condition(own, root)
        for own in filters.filters
        if getattr(own, "filters", True)  # none in brackets is no condition
    ]
    match filters.condition:
        case "or":
            return models.Filter(should=conditions)
        case "not":
            return models.Filter(must_not=conditions)
        case _:
            return models.Filter(must=conditions)


def _condition(given: Any, root: str) -> models.Condition:
    key = metadata_path(given.key, root)
    try:
        return _COMPARISONS[given.operator](key, given.value)
    except ValueError as error:  # pydantic's, of Qdrant's own models
        raise DataError(
            f"the filter {given.key!r} {given.operator.value} {given.value!r} is none of Qdrant; a list "
            "goes with in, nin, any and all, a number with <, <=, > and >=, a text or a whole number with !="
        ) from error


def _equal(key: str, value: Any) -> models.Condition:
    if isinstance(value, float):  # a match is for strings and whole numbers
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _range(bound: str) -> _Comparison:
    return lambda key, value: models.FieldCondition(key=key, range=models.Range(**{bound: value}))


def _except(key: str, values: list[Any]) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchExcept(**{"except": values}))


def _any(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=_listed(value)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else str(value).split(",")


def _text(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchText(text=value))


_COMPARISONS: Mapping[str, _Comparison] = {
    "==": _equal,
    "!=": lambda key, value: _except(key, [value]),
    "<": _range("lt"),
    "<=": _range("lte"),
    ">": _range("gt"),
    ">=": _range("gte"),
    "in": _any,
    "any": _any,
    "nin": lambda key, value: _except(key, _listed(value)),
    "all": lambda key, value: models.Filter(must=[_equal(key, own) for own in _listed(value)]),
    "contains": _equal,
    "text_match": _text,
    "text_match_insensitive": _text,
    "is_empty": lambda key, _: models.IsEmptyCondition(is_empty=models.PayloadField(key=key)),
}
