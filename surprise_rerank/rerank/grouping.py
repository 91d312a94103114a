"""Groups of hits that share a value, such as the chunks of one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from surprise_rerank.core.json_values import at
from surprise_rerank.errors import DataError

_METADATA = "metadata."


class _Described(Protocol):
    @property
    def metadata(self) -> Mapping[str, Any]: ...


D = TypeVar("D", bound=_Described)


def group_path(path: str) -> str:
    """Where the value is in the metadata: `metadata.author`, or `author` alone, with dots into objects.

    Raises:
        DataError: if it names nothing.
    """
    inner = path.removeprefix(_METADATA) if isinstance(path, str) else ""
    if not all(inner.split(".")):
        raise DataError(f"group_by={path!r}: give a path into the metadata, such as metadata.author")
    return inner


def grouped(hits: Iterable[D], path: str, limit: int, size: int) -> list[tuple[str | int, list[D]]]:
    """The first groups of hits that share a value, each with its best hits; the best hit orders them.

    As in Qdrant, a hit with a list of values is in the group of each, and one without a string or an integer
    is in none.

    Args:
        hits: best first.
        path: of `group_path`.
        limit: number of groups.
        size: most hits of a group.
    """
    groups: dict[str | int, list[D]] = {}
    for hit in hits:
        for value in _values(at(hit.metadata, path)):
            own = groups.setdefault(value, [])
            if len(own) < size:
                own.append(hit)
    return list(groups.items())[:limit]


def _values(value: Any) -> Sequence[str | int]:
    values = value if isinstance(value, list) else [value]
    found = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool)]
    return list(dict.fromkeys(found))
