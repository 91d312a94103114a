"""Filters in Qdrant's JSON, and what is wrong with one in the words of who wrote it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, StoreError, did_you_mean

_DEEPEST = 20  # filters in filters


def require_tests(query_filter: models.Filter, place: str = "filter") -> None:
    """Refuse, by a DataError, a condition that tests nothing, as `Range()`."""
    for condition, where in _conditions(query_filter.model_dump(exclude_none=True, by_alias=True), place, 1):
        if "key" in condition:
            _require_test(condition, where)


def _names(*kinds: type[BaseModel]) -> list[str]:
    """The fields of classes, as JSON has them."""
    fields = (item for kind in kinds for item in kind.model_fields.items())
    return list(dict.fromkeys(field.alias or name for name, field in fields))


_GROUPS = _names(models.Filter)
# What tells kinds of conditions apart; of a field, which has several, the key.
_KINDS: dict[str, type[BaseModel]] = {"key": models.FieldCondition} | {
    _names(kind)[0]: kind
    for kind in get_args(models.Condition)
    if kind not in (models.FieldCondition, models.Filter)
}
_OF_FIELDS = [name for name in _names(models.FieldCondition) if name != "key"]
# What may stand in the two tests that people write by hand.
_INSIDE = {
    "match": _names(*get_args(models.Match)),
    "range": _names(models.Range, models.DatetimeRange),
}


def filter_of(values: Any, most: int | None = None) -> models.Filter:
    """A filter from Qdrant's JSON, as Python values.

    Args:
        values: of JSON.
        most: conditions that it may have, those in filters in it included; any number where None.

    Raises:
        DataError: if it is no filter, has a condition that tests nothing or more conditions, or has values
            that Qdrant does not take; names what is wrong.
    """
    for number, (condition, place) in enumerate(_conditions(values, "", 1), start=1):
        if most is not None and number > most:
            raise DataError(f"it has more than {most} conditions; test many values with one match.any")
        _require_condition(condition, place)
    try:
        query_filter = models.Filter.model_validate(values)
    except ValidationError as error:  # what no condition has: the number of min_should
        raise DataError(_wrong(error, values, "")) from error
    # The engine's own code knows what it takes: paths, places, numbers of 64 bits. What only a server has is
    # left to it.
    from surprise_rerank.connectors.qdrant._engines.edge import to_filter

    with contextlib.suppress(StoreError):
        to_filter(query_filter)
    return query_filter


def _conditions(values: Any, place: str, level: int) -> Iterator[tuple[Any, str]]:
    """The conditions of a filter at any depth, and where each is.

    Raises:
        DataError: if something around them is no filter.
    """
    if not isinstance(values, Mapping):
        raise DataError(f"{place or 'it'} must be a JSON object with must, should, must_not or min_should")
    if level > _DEEPEST:
        raise DataError(f"it has more than {_DEEPEST} filters in each other; write a flatter one")
    _require_known(values, _GROUPS, place)
    for name, conditions in values.items():
        where = f"{place}.{name}" if place else name
        if name == "min_should" and isinstance(conditions, Mapping):
            _require_known(conditions, _names(models.MinShould), where)
            conditions, where = conditions.get("conditions"), f"{where}.conditions"
        for row, condition in enumerate(
            conditions if isinstance(conditions, list) else [] if conditions is None else [conditions]
        ):
            here = f"{where}[{row}]" if isinstance(conditions, list) else where
            yield condition, here
            if isinstance(condition, Mapping) and not condition.keys() & _KINDS:
                yield from _conditions(condition, here, level + 1)
            elif "nested" in condition:
                yield from _conditions(condition["nested"]["filter"], f"{here}.nested.filter", level + 1)


def _require_condition(condition: Any, place: str) -> None:
    """Refuse what is no condition, or tests nothing: it would let through what it should hide."""
    if not isinstance(condition, Mapping) or not condition:
        example = '{"key": "metadata.year", "match": {"value": 2024}}'
        raise DataError(f"{place} must be a condition, such as {example}")
    kind = next((kind for name, kind in _KINDS.items() if name in condition), None)
    if kind is None:  # a filter, unless it has what only a field's condition has
        keys = _GROUPS if condition.keys() & set(_GROUPS) else [*_KINDS, *_GROUPS]
        _require_known(condition, keys, place)
        return
    _require_known(condition, _names(kind), place)
    if kind is models.FieldCondition:
        _require_test(condition, place)
    try:
        read = kind.model_validate(condition)
    except ValidationError as error:
        raise DataError(_wrong(error, condition, place)) from error
    if isinstance(read, models.HasIdCondition):
        for name in read.has_id:
            if not _is_point_id(name):
                raise DataError(
                    f"has_id knows points, not documents ({name!r} is no UUID); a document is "
                    """{"key": "id", "match": {"value": "its id"}}"""
                )


def _require_test(condition: Mapping[str, Any], place: str) -> None:
    """Refuse a condition of a field that tests nothing."""
    if all(condition.get(name) is None for name in _OF_FIELDS):
        raise DataError(f"{place} tests nothing; give it one of {', '.join(_OF_FIELDS)}")
    for name, inside in _INSIDE.items():
        test = condition.get(name)
        if isinstance(test, Mapping):
            _require_known(test, inside, f"{place}.{name}")
            if all(value is None for value in test.values()):
                raise DataError(f"{place}.{name} tests nothing; give it one of {', '.join(inside)}")
            for key, value in test.items():
                if isinstance(value, float):  # no document is beyond NaN, nor can a server be sent it
                    border.number(f"{place}.{name}.{key}", value)


def _require_known(values: Mapping[str, Any], names: Iterable[str], place: str) -> None:
    names = list(names)
    for name in values:
        if name not in names:
            hint = did_you_mean(str(name), names)
            raise DataError(
                f"{name!r} is not known in {place or 'the filter'}; {hint}it can have: {', '.join(names)}"
            )


def _is_point_id(name: Any) -> bool:
    try:
        uuid.UUID(name)
    except (ValueError, TypeError, AttributeError):
        return isinstance(name, int)
    return True


def _wrong(error: ValidationError, values: Any, place: str) -> str:
    """What is wrong deepest in the JSON; pydantic's places hold the names of classes and types, too."""
    shown: list[tuple[str, str]] = []
    for problem in error.errors(include_url=False):
        where, at = place, values
        for part in problem["loc"]:
            if isinstance(at, Mapping) and part in at:
                where, at = f"{where}.{part}" if where else str(part), at[part]
            elif isinstance(at, list) and isinstance(part, int):
                where, at = f"{where}[{part}]", at[part]
        missing = problem["type"] == "missing"
        said = problem["msg"].partition(" or instance of")[0].replace("a valid dictionary", "an object")
        said = f"{problem['loc'][-1]} is missing" if missing else said[0].lower() + said[1:]
        if problem["type"] != "extra_forbidden":
            shown.append((where, said))
    where, said = max(
        shown, key=lambda line: (line[0].count(".") + line[0].count("["), "missing" not in line[1])
    )
    return f"{where or 'the filter'}: {said}"
