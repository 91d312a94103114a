"""Values of JSON, which has no NaN and no infinities, and objects in objects."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import uuid
from collections.abc import Mapping
from typing import Any

from surprise_rerank._errors import DataError


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
    """Return a value with None in place of every number that JSON cannot hold.

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


def sealed(values: Mapping[str, Any], form: int) -> bytes:
    """Return values as the content of a kept file: JSON, with the number of their form and a digest."""
    record = {**values, "format": form}
    return json.dumps({**record, "digest": _digest(record)}).encode()


def unsealed(content: bytes, form: int, what: str, advice: str) -> dict[str, Any]:
    """Return the values that `sealed` was given; nothing in them is executed.

    Raises:
        DataError: if the content is damaged, something else, or of another form.
    """
    try:
        values: dict[str, Any] = json.loads(content)
        is_whole = values.pop("digest") == _digest(values) and values.pop("format") == form
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise DataError(f"{what} is damaged, or of another format; {advice}")
    return values


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a key, or at keys with dots between them; None where there is none."""
    if key in values:
        return values[key]
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def id_string(value: object) -> str | None:
    """An id as a string: strings, integers (numpy's too) and UUIDs; None for everything else."""
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, str | numbers.Integral | uuid.UUID) else None
