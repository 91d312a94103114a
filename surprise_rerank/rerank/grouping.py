"""Groups of hits that share a value, such as the chunks of one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from surprise_rerank import border
from surprise_rerank.core.json_values import at

_METADATA = "metadata."


def group_path(path: str) -> str:
    """Where the value is in the metadata: `metadata.author`, or `author` alone, with dots into objects.

    Raises:
        DataError: if it names nothing.
    """
    return border.key("group_by", border.text("group_by", path).removeprefix(_METADATA), "metadata.author")


def grouped(
    metadata: Iterable[Mapping[str, Any]], path: str, limit: int, size: int
) -> dict[str | int, list[int]]:
    """The first groups of hits that share a value, with the places of its best hits; the best orders them.

    As in Qdrant, a hit with a list of values is in the group of each, and one without a string or an integer
    is in none.

    Args:
        metadata: of each hit, best first.
        path: of `group_path`.
        limit: number of groups.
        size: most hits of a group.
    """
    groups: dict[str | int, list[int]] = {}
    for place, values in enumerate(metadata):
        value = at(values, path)
        members = value if isinstance(value, list) else [value]
        names = (v for v in members if isinstance(v, str | int) and not isinstance(v, bool))
        for name in dict.fromkeys(names):
            places = groups.setdefault(name, [])
            if len(places) < size:
                places.append(place)
    return dict(list(groups.items())[:limit])
