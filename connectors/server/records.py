"""The outermost layer: every request gets an id, a line in the log, and its place in the metrics."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from surprise_rerank.connectors.server.answers import (
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
from surprise_rerank.connectors.server.logs import log_failure
from surprise_rerank.connectors.server.metrics import Metrics
from surprise_rerank.core.tracing import continuing

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_KEY = "surprise_rerank.record"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})


@dataclass(slots=True)
class Record:
    """What is known of a request.

    Attributes:
        request_id: the caller's, or a new one.
        status: of the answer, once it has begun.
        documents: how many were re-ranked, or found.
    """

    request_id: str
    status: int | None = None
    documents: int = 0


def record_of(scope: Scope) -> Record:
    """The record of a request that came through `Recorder`."""
    return cast(Record, scope[_KEY])


class Recorder:
    """Keeps the records, and answers what fails: no error passes it.

    Args:
        app: what answers.
        metrics: where requests are counted.
        logger: where they are written down.
    """

    def __init__(self, app: App, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._app = app
        self._metrics = metrics
        self._logger = logger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        record = Record(given if _ID.fullmatch(given) else str(uuid.uuid4()))
        scope[_KEY] = record

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                mark = (b"x-request-id", record.request_id.encode("ascii"))
                message = {**message, "headers": [*message.get("headers", ()), mark]}
            await send(message)

        start = time.perf_counter()
        try:
            with continuing(scope["headers"]):
                await self._app(scope, receive, tagged)
        except Exception as error:  # noqa: BLE001 - what no layer foresaw; the server's own log would have the trace
            log_failure(self._logger, record.request_id, error)
            if record.status is None:
                await send_error(scope, tagged, failure(record))
        finally:
            self._write(scope, record, time.perf_counter() - start)

    def _write(self, scope: Scope, record: Record, seconds: float) -> None:
        route = self._metrics.route(route_path(scope))
        status = record.status or 0
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        self._logger.info(
            "request",
            method=scope["method"] if scope["method"] in _METHODS else "other",
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            documents=record.documents,
            request_id=record.request_id,
        )


def failure(record: Record) -> RefusedError:
    """What a caller is told of an error that is the server's."""
    return RefusedError(500, f"the server failed; its log says where, at request {record.request_id}")
