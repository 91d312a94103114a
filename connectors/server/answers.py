"""Answers as JSON, and refusals in the form of the service that was asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from surprise_rerank.core.json_values import finite

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Text Embeddings Inference's: its errors have a form of their own.
TEI_ROUTE = "/rerank"
# What has bodies and causes work.
WORK_ROUTES = frozenset({"/v1/rerank", "/v2/rerank", TEI_ROUTE, "/v1/search", "/v1/documents"})

# The verdict in answers to that route, which are bare lists.
VERDICT_HEADER = "X-Surprise-Verdict"

# What nginx writes down for a client that hangs up; nobody receives it.
CLIENT_GONE = 499

_TEI_TYPES = {401: "unauthorized", 429: "overloaded", 500: "backend", 503: "unhealthy"}


class RefusedError(Exception):
    """A request that gets this status and sentence, which must hold nothing of its documents.

    Attributes:
        status: of HTTP.
        message: what was given, what was expected, and what to do.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


def route_path(scope: Scope) -> str:
    """The path of a request within this application, by the rule that the framework's routes go by.

    A mount, or a proxy's prefix, stands in the scope's root_path, and before the path.

    >>> route_path({"path": "/models/v1/rerank", "root_path": "/models"})
    '/v1/rerank'
    >>> route_path({"path": "/v1/rerank", "root_path": "/models"})
    '/v1/rerank'
    >>> route_path({"path": "/rerank", "root_path": "/r"})
    '/rerank'
    """
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


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


async def send_error(scope: Scope, send: Send, refused: RefusedError) -> None:
    """Answer a request that no route will see."""
    content = to_json(error_content(route_path(scope), refused.status, refused.message))
    headers = {
        "content-type": "application/json",
        "content-length": str(len(content)),
        **{name.lower(): value for name, value in refused.headers.items()},
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


def header(scope: Scope, name: bytes) -> str:
    """The value of a request's header; empty where it has none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
