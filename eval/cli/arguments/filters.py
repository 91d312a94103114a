"""Filters in Qdrant's JSON, and groups of hits that share a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from qdrant_client.models import Filter

METADATA = "metadata."


class _Described(Protocol):
    @property
    def metadata(self) -> Mapping[str, Any]: ...


D = TypeVar("D", bound=_Described)


def parse_filter(text: str) -> Filter:
    """A filter from Qdrant's JSON.

    Raises:
        DataError: if it is not JSON, or no filter; names the place that is wrong.
    """
    from surprise_rerank.connectors.qdrant.search.filters import filter_of

    values = filter_values(text)
    try:
        return filter_of(values)
    except DataError as error:
        raise DataError(f"--filter: {error}") from error


def filter_values(text: str) -> Any:
    """What `--filter` has as JSON, for a server that checks it.

    Raises:
        DataError: if it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(
            f"--filter is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error


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


def _values(metadata: Mapping[str, Any], keys: Sequence[str]) -> list[str | int]:
    value: Any = metadata
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    found = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool)]
    return list(dict.fromkeys(found))
