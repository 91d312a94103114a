"""Who may come in, with what, and how many at once: all that is checked before a body is understood."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Set

from surprise_rerank.connectors.server.answers import (
    CLIENT_GONE,
    WORK_ROUTES,
    App,
    Message,
    Receive,
    RefusedError,
    Scope,
    Send,
    header,
    route_path,
    send_error,
)
from surprise_rerank.connectors.server.metrics import Metrics
from surprise_rerank.connectors.server.options import ServerOptions
from surprise_rerank.connectors.server.page import PAGE_ROUTES
from surprise_rerank.connectors.server.records import record_of

# Probes carry no token, nor does a browser that fetches a page.
OPEN_ROUTES = frozenset({"/health", "/ready"}) | PAGE_ROUTES

_RETRY_SOON = {"Retry-After": "1"}


class Gate:
    """Lets requests in that may come in, with their bodies read.

    A body is counted while it arrives, so that a wrong or missing Content-Length changes nothing. The number
    of concurrent requests is limited, which bounds the memory that bodies take.

    Args:
        app: what answers.
        options: token and limits.
        metrics: where rejections are counted.
        work: the paths that have bodies and cause work.
    """

    def __init__(
        self, app: App, options: ServerOptions, metrics: Metrics, work: Set[str] = WORK_ROUTES
    ) -> None:
        self._app = app
        self._work = work
        self._options = options
        self._metrics = metrics
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._require_token(scope)
            if scope["method"] in ("POST", "PUT") and route_path(scope) in self._work:
                await self._admitted(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except RefusedError as refused:
            if record_of(scope).status is None:
                await send_error(scope, send, refused)

    def _require_token(self, scope: Scope) -> None:
        token = self._options.token
        if token is None or route_path(scope) in OPEN_ROUTES:
            return
        scheme, _, given = header(scope, b"authorization").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1"), token.encode())
        if scheme.lower() != "bearer" or not same:
            raise RefusedError(
                401,
                "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": 'Bearer realm="surprise-rerank"'},
            )

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        content_type = header(scope, b"content-type").partition(";")[0].strip().lower()
        # Also what keeps web pages out of a server on this machine: browsers ask before they send JSON.
        if content_type != "application/json":
            raise RefusedError(415, "the body must be JSON; send the header 'Content-Type: application/json'")
        if self._inside >= self._options.max_requests:
            self._metrics.rejections.inc()
            raise RefusedError(
                429, f"{self._inside} requests are being worked on; try again in a second", _RETRY_SOON
            )
        self._inside += 1
        self._metrics.in_flight.inc()
        body: bytes | None = None
        try:
            async with asyncio.timeout(self._options.timeout) as timer:
                body = await self._body(scope, receive)
                await self._app(scope, _again(body, receive), send)
        except TimeoutError:
            if not timer.expired():
                raise
            seconds = f"{self._options.timeout:g} s"
            if body is None:
                raise RefusedError(408, f"the body did not arrive within {seconds}") from None
            raise RefusedError(
                503, f"no answer within {seconds}; send fewer documents, or try again later", _RETRY_SOON
            ) from None
        finally:
            self._inside -= 1
            self._metrics.in_flight.dec()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self._options.max_body
        refused = RefusedError(413, f"the body has more than {most} bytes; send fewer or shorter documents")
        announced = header(scope, b"content-length")
        if announced.isdecimal() and int(announced) > most:
            raise refused
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedError(CLIENT_GONE, "the client hung up")
            body += message.get("body", b"")
            if len(body) > most:
                raise refused
            if not message.get("more_body", False):
                return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, and then what the connection brings."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
