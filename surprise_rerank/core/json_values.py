"""Values of JSON, which has no NaN and no infinities, and objects in objects."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from surprise_rerank.errors import DataError


def read_json(text: str | bytes) -> Any:
    """The value of a text of JSON, which means one thing to every reader: no key comes twice.

    Who looks at a tenant or a filter before it comes here may read the first of two, and Python the last.
    """
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise DataError("an object has a key twice; send each once")
    return values


def finite(value: Any) -> Any:
    """The same with None for every number that JSON does not have.

    >>> finite({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [finite(member) for member in value]
    return value


def at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a key, or at keys with dots between them; None where there is none."""
    if key in values:
        return values[key]
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
