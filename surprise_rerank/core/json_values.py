"""Values of JSON, which has no NaN and no infinities, and objects in objects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


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
