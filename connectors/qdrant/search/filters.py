"""Filters in Qdrant's JSON, and what is wrong with one in the words of who wrote it."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from qdrant_client import models

from surprise_rerank.errors import DataError, StoreError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Path: TypeAlias = tuple[str | int, ...]

_SHOWN = 10  # names that an error lists
_CLASS = re.compile(r"a valid dictionary or instance of \w+")


def filter_of(values: Any) -> models.Filter:
    """A filter from Qdrant's JSON, as Python values.

    Raises:
        DataError: if it is no filter, or has values that Qdrant does not take; names what is wrong.
    """
    try:
        found = models.Filter.model_validate(values)
    except ValidationError as error:
        raise DataError(_wrong(error.errors(include_url=False))) from error
    for name in _point_ids(values):
        if not _is_point_id(name):
            raise DataError(
                f"has_id knows points, not documents ({name!r} is no UUID); a document is "
                """{"key": "id", "match": {"value": "its id"}}"""
            )
    # The engine's own code knows what it takes: paths, places, numbers of 64 bits. What only a server has is
    # left to it.
    from surprise_rerank.connectors.qdrant.engines.edge_filters import to_filter

    with contextlib.suppress(StoreError):
        to_filter(found)
    return found


def _point_ids(values: Any) -> Iterator[Any]:
    """What the conditions `has_id` name, at any depth."""
    if isinstance(values, list):
        for own in values:
            yield from _point_ids(own)
    elif isinstance(values, Mapping):
        yield from values.get("has_id", ())
        for own in values.values():
            yield from _point_ids(own)


def _is_point_id(name: Any) -> bool:
    try:
        uuid.UUID(name)
    except (ValueError, TypeError, AttributeError):
        return isinstance(name, int)
    return True


def _wrong(errors: Sequence[ErrorDetails]) -> str:
    """What is wrong: of everything that each kind of condition lacks, what lies deepest in the JSON."""
    if errors[0]["loc"] == ():
        return "it must be a JSON object with must, should, must_not or min_should"
    given = [error for error in errors if error["type"] != "missing"]
    worst = max(given or errors, key=lambda error: len(_json_path(error)))  # the first of the deepest
    path = _json_path(worst)
    place = path[:-1] if worst["type"] in ("extra_forbidden", "missing") else path
    names = [
        str(error["loc"][-1])
        for error in errors
        if error["type"] == "missing" and _json_path(error)[:-1] == place
    ]
    known = ", ".join(list(dict.fromkeys(names))[:_SHOWN])
    match worst["type"]:
        case "missing":
            return f"{_shown(place)} lacks one of {known}"
        case "extra_forbidden":
            choice = f"; what it can have: {known}" if known else ""
            return f"{path[-1]!r} is not known in {_shown(place)}{choice}"
    message = _CLASS.sub("an object", worst["msg"])
    return f"{_shown(path)}: {message[0].lower()}{message[1:]}"


def _json_path(error: ErrorDetails) -> Path:
    """Where an error is in the JSON; pydantic's places hold the names of classes and types, too."""
    return tuple(part for part in error["loc"] if isinstance(part, int) or _is_key(part))


def _is_key(part: str) -> bool:
    return (
        not part[:1].isupper() and "[" not in part and part not in ("bool", "int", "str", "date", "datetime")
    )


def _shown(path: Path) -> str:
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".") or "the filter"
