"""Filters in Qdrant's JSON, and groups of hits that share a value."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from qdrant_client.models import Filter

Path: TypeAlias = tuple[str | int, ...]

METADATA = "metadata."
_SHOWN = 10  # names that an error lists
_CLASS = re.compile(r"a valid dictionary or instance of \w+")


class _Described(Protocol):
    @property
    def metadata(self) -> Mapping[str, Any]: ...


D = TypeVar("D", bound=_Described)


def parse_filter(text: str) -> Filter:
    """A filter from Qdrant's JSON.

    Raises:
        DataError: if it is not JSON, or no filter; names the place that is wrong.
    """
    from pydantic import ValidationError
    from qdrant_client.models import Filter

    try:
        values = json.loads(text)
        found = Filter.model_validate(values)
    except ValidationError as error:
        raise DataError(f"--filter: {_wrong(error.errors(include_url=False))}") from error
    except ValueError as error:
        raise DataError(
            f"--filter is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error
    for name in _point_ids(values):
        if not _is_point_id(name):
            raise DataError(
                f"--filter: has_id knows points, not documents ({name!r} is no UUID); a document is "
                """{"key": "id", "match": {"value": "its id"}}"""
            )
    return found


def check_group_path(path: str) -> tuple[str, ...]:
    """The keys of a path such as `metadata.author.name`, below the metadata.

    Raises:
        DataError: if it does not lead into the metadata.
    """
    keys = tuple(path.removeprefix(METADATA).split("."))
    if not path.startswith(METADATA) or not all(keys):
        raise DataError(f"--group-by {path!r}: give a path into the metadata, such as metadata.author")
    return keys


def grouped(hits: Iterable[D], keys: Sequence[str], limit: int, size: int) -> list[tuple[str | int, list[D]]]:
    """The first groups of hits that share a value, each with its best hits; the best hit orders them.

    As in Qdrant, a hit with a list of values is in the group of each, and one without a string or an integer
    is in none.

    Args:
        hits: best first.
        keys: where the value is in the metadata.
        limit: number of groups.
        size: most hits of a group.
    """
    groups: dict[str | int, list[D]] = {}
    for hit in hits:
        for value in _values(hit.metadata, keys):
            own = groups.setdefault(value, [])
            if len(own) < size:
                own.append(hit)
    return list(groups.items())[:limit]


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


def _values(metadata: Mapping[str, Any], keys: Sequence[str]) -> list[str | int]:
    value: Any = metadata
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    found = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool)]
    return list(dict.fromkeys(found))


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
