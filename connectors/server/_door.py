"""The outermost layer: who may come in, with what, and how many at once; and what is written down of each."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from surprise_rerank._errors import StoreError
from surprise_rerank.connectors.server._answers import RefusedError, error_content, to_json
from surprise_rerank.connectors.server._logs import REQUEST_ID, EventLog
from surprise_rerank.connectors.server._owners import ANYBODY, Owner, Right
from surprise_rerank.connectors.server._page import PAGE_ROUTES
from surprise_rerank.connectors.server._work import AbandonedError
from surprise_rerank.core._extras import importing
from surprise_rerank.core._tracing import continuing

with importing("server"):
    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.routing import Match

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from surprise_rerank.connectors.server._service import Service

MCP_ROUTE = "/mcp"
DEADLINE = "X-Request-Timeout"  # seconds for which the client waits
# What nginx writes down for a client that hangs up; nobody receives it.
CLIENT_GONE = 499
# Probes carry no token, nor does a browser that fetches a page.
_OPEN = frozenset({"/health", "/ready"}) | PAGE_ROUTES
# Bytes beyond a limit that are read and dropped: who still sends cannot read an answer.
_DRAINED = 2**23
# A question and a filter have no documents in them; reading thousands of conditions would take a second.
_SMALL, _SMALL_ROUTES = 2**20, frozenset({"/v1/search", MCP_ROUTE})
_KEY = "surprise_rerank.record"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SOON = {"Retry-After": "1"}


# What a token must allow; `search` where nothing is said. None is for every token.
_RIGHTS: dict[str, Right | None] = {
    "/v1/documents": "write",
    "/v1/documents/{id:path}": "write",
    "/v1/documents/delete": "write",
    "/v1/jobs/{id}": "write",
    "/metrics": "admin",
    "/info": None,
    "/v1/models": None,
    "/openapi.json": None,
    "other": None,
}


@dataclass(slots=True)
class Record:
    """A request's id, route and owner, its answer's status once it has begun, and how many documents.

    The route is as in log and metrics; what the application does not have is `other`.
    """

    request_id: str
    route: str = "other"
    takes_method: bool = False  # whether the route is for the request's method
    owner: Owner = ANYBODY
    seconds: float = 0.0  # for the answer
    status: int | None = None
    documents: int = 0


def record_of(scope: Scope) -> Record:
    """The record of a request that came through the door."""
    return cast(Record, scope[_KEY])


def json_response(content: Any) -> Response:
    """An answer of JSON."""
    return Response(to_json(content), media_type="application/json")


def route_path(scope: Scope) -> str:
    """The path of a request within this application; a mount or a proxy's prefix is in the root_path.

    >>> route_path({"path": "/models/v1/rerank", "root_path": "/models"})
    '/v1/rerank'
    >>> route_path({"path": "/rerank", "root_path": "/r"})
    '/rerank'
    """
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def _new_record(scope: Scope, headers: Headers) -> Record:
    """The record of a request, by the route that fits it best."""
    fits = [(route.matches(scope)[0], getattr(route, "path", "other")) for route in scope["app"].routes]
    match, route = max(fits, key=lambda fit: fit[0].value)
    request_id = headers.get("x-request-id", "")
    request_id = request_id if _ID.fullmatch(request_id) else str(uuid.uuid4())
    return Record(request_id, "other" if match is Match.NONE else route, match is Match.FULL)


class RequestGate:
    """Lets requests in that may come in, with their bodies read, and answers what fails."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._options = service.options
        self._inside = 0  # requests that are worked on
        self._held = 0  # bytes of bodies that are being read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        record = scope[_KEY] = _new_record(scope, headers)
        REQUEST_ID.set(record.request_id)

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                mark = (b"x-request-id", record.request_id.encode("ascii"))
                message = {**message, "headers": [*message.get("headers", ()), mark]}
            await send(message)

        begun = time.perf_counter()
        try:
            with continuing(scope["headers"]):
                self._require_name(headers)
                record.owner = self._require_owner(scope, headers)
                record.seconds = self._seconds(scope, headers)
                if scope["method"] not in ("GET", "HEAD"):
                    await self._admitted(scope, headers, receive, tagged)
                else:
                    await self._answered(scope, receive, tagged)
        except Exception as error:  # noqa: BLE001 - no error passes: the server's own log would have its trace
            if record.status is None:
                refused = refusal(error, self._service.logger, record.request_id, scope["method"])
                content = error_content(route_path(scope), refused.status, refused.message)
                answer = Response(to_json(content), refused.status, refused.headers, "application/json")
                await answer(scope, receive, tagged)
            elif not isinstance(error, RefusedError):
                self._service.logger.fail(record.request_id, error)
        finally:
            self._write(scope, record, time.perf_counter() - begun)

    def _require_name(self, headers: Headers) -> None:
        """Without a token: refuse who calls this machine by a name that it does not have."""
        if self._options.asks_for_tokens:
            return
        origin = headers.get("origin")
        if origin in self._options.origins:
            origin = None
        for kind, name in (("Host", f"//{headers.get('host', '')}"), ("Origin", origin)):
            if name is not None and not self._is_own(name):
                raise RefusedError(
                    403,
                    f"the {kind} of the request is no name of this machine; use http://localhost, give the "
                    "server a token, or name the host in hosts of its [server] settings",
                )

    def _is_own(self, url: str) -> bool:
        try:
            name = urlsplit(url).hostname or ""
            return name in ("localhost", *self._options.hosts) or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _require_owner(self, scope: Scope, headers: Headers) -> Owner:
        if route_path(scope) in _OPEN:
            return ANYBODY
        owner = self._service.tokens.owner(headers.get("authorization", ""))
        if owner is None:
            raise RefusedError(
                401,
                "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": 'Bearer realm="surprise-rerank"'},
            )
        route = record_of(scope).route
        right = _RIGHTS.get(route, "search")
        if right is not None:
            owner.require(right, route)
        return owner.within(self._service.tenant)

    async def _admitted(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # Also what keeps web pages out of a server on this machine: browsers ask before they send JSON.
        # What no route takes is refused as that.
        reads = scope["method"] != "DELETE" and record_of(scope).takes_method
        if reads and kind != "application/json":
            raise RefusedError(415, "the body must be JSON; send the header 'Content-Type: application/json'")
        with self._service.metrics.in_flight.track_inprogress():
            self._require_place()
            body = await self._body(scope, receive)
            # A body that comes slowly takes no place of those that compute.
            self._require_place()
            self._inside += 1
            try:
                await self._answered(scope, _again(body, receive), send)
            finally:
                self._inside -= 1

    def _require_place(self) -> None:
        if self._inside >= self._options.max_requests:
            self._service.metrics.rejections.inc()
            raise RefusedError(429, f"{self._inside} requests are being worked on; try again soon", _SOON)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = record_of(scope).seconds
        try:
            async with asyncio.timeout(seconds) as timer:
                await self._app(scope, receive, send)
        except TimeoutError:
            if not timer.expired():
                raise
            if seconds < self._options.timeout:
                said = f"no answer within the {seconds:g} s of the request's {DEADLINE}"
                raise RefusedError(504, said) from None
            said = f"no answer within {seconds:g} s; send fewer documents, or try again later"
            raise RefusedError(503, said, _SOON) from None

    def _seconds(self, scope: Scope, headers: Headers) -> float:
        """How long an answer may take: as long as the server lets it, and no longer than the client waits."""
        # A tool of an agent says in its own words that the time is over.
        most = self._options.timeout * (1 + (route_path(scope) == MCP_ROUTE))
        try:
            wanted = float(headers.get(DEADLINE, most))
        except ValueError:
            wanted = 0.0
        if not wanted > 0:
            raise RefusedError(422, f"{DEADLINE} is no number of seconds above 0; send such as 2.5")
        return min(wanted, most)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """A body, counted while it arrives: a wrong or missing Content-Length changes nothing."""
        most, room = self._options.max_body, self._options.max_body * self._options.max_requests
        if route_path(scope) in _SMALL_ROUTES:
            most = min(most, _SMALL)
        body, length, more = bytearray(), 0, True
        try:
            async with asyncio.timeout(self._options.read_timeout):
                while more and length <= most + _DRAINED:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(CLIENT_GONE, "the client hung up")
                    part = message.get("body", b"")
                    length, more = length + len(part), message.get("more_body", False)
                    if length <= most:
                        body += part
                        self._held += len(part)
                    if self._held > room:
                        raise RefusedError(429, "too many bodies are being read; try again soon", _SOON)
        except TimeoutError:
            said = f"the body did not arrive within {self._options.read_timeout:g} s"
            raise RefusedError(408, said) from None
        finally:
            self._held -= len(body)
        if length > most:
            raise RefusedError(413, f"the body has more than {most} bytes; send less")
        return bytes(body)

    def _write(self, scope: Scope, record: Record, seconds: float) -> None:
        route, status = record.route, record.status or 0
        owner: dict[str, Any] = {"owner": record.owner.name} if record.owner.name else {}
        self._service.metrics.requests.labels(route, str(status)).inc()
        self._service.metrics.seconds.labels(route).observe(seconds)
        self._service.logger.say(
            "request",
            method=scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 8 else "other",
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            documents=record.documents,
            request_id=record.request_id,
            **owner,
        )


def refusal(error: Exception, logger: EventLog, request_id: str, method: str = "POST") -> RefusedError:
    """Return the answer to an error; errors of the server are written to the log as well."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, AbandonedError):
        return RefusedError(CLIENT_GONE, "the client hung up")
    logger.fail(request_id, error)
    if isinstance(error, StoreError):
        done = "read" if method == "POST" else "changed"
        said = f"the index cannot be {done} at the moment; see that it can be reached, and try again later"
        return RefusedError(503, said, {"Retry-After": "5"})
    return RefusedError(500, f"the server failed; its log says where, at request {request_id}")


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, and then what the connection brings."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
