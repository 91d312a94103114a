"""Answers as JSON, and refusals in the form of the service that was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from surprise_rerank._errors import DataError
from surprise_rerank.core._json_values import finite

# Text Embeddings Inference's: its errors have a form of their own.
TEI_ROUTE = "/rerank"
_TEI_TYPES = {401: "unauthorized", 429: "overloaded", 500: "backend", 503: "unhealthy"}


class RefusedError(Exception):
    """A request that gets this status, sentence and headers; they must hold nothing of its documents."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


@contextmanager
def refusing(what: str = "") -> Iterator[None]:
    """Refuse the request by what the block finds wrong with it."""
    try:
        yield
    except DataError as error:
        raise RefusedError(422, f"{what}{error}") from error


def error_content(path: str, status: int, message: str) -> dict[str, str]:
    """An error as the route's clients expect it.

    >>> error_content("/rerank", 429, "busy")
    {'error': 'busy', 'error_type': 'overloaded'}
    >>> error_content("/v1/rerank", 429, "busy")
    {'message': 'busy', 'detail': 'busy'}
    """
    if path == TEI_ROUTE:
        return {"error": message, "error_type": _TEI_TYPES.get(status, "validation")}
    return {"message": message, "detail": message}


def to_json(content: Any) -> bytes:
    r"""JSON in ASCII, with null for what JSON has no number for.

    >>> to_json({"a": [1.5, float("-inf")], "b": "\ud800"})
    b'{"a":[1.5,null],"b":"\\ud800"}'
    """
    return json.dumps(finite(content), allow_nan=False, separators=(",", ":")).encode("ascii")
