"""Limits of connections: what holds before a request has been read, which uvicorn has no settings for."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import sys
from typing import Any

from surprise_rerank._errors import DataError
from surprise_rerank.connectors.server._options import ServerOptions
from surprise_rerank.core._extras import importing

with importing("server"):
    from uvicorn.protocols.http.h11_impl import H11Protocol

if sys.platform != "win32":
    import resource

_log = logging.getLogger("uvicorn.error")
# Descriptors beside those of connections: an index's files, a Qdrant's connections, the log.
_OTHER_FILES = 256
_LAST_LOOK = 0.2  # seconds
_SHORTEST_QUEUE = 128  # connections that wait to be accepted


def limited(options: ServerOptions) -> dict[str, Any]:
    """Return the settings of `uvicorn.Config` that keep connections within these limits.

    Raises:
        DataError: if the system lets this process have fewer connections.
    """
    # asyncio accepts as many at once as the backlog holds, before any of them is counted.
    backlog = max(options.max_connections, _SHORTEST_QUEUE)
    _allow_files(options.max_connections + backlog + _OTHER_FILES)
    return {
        "http": functools.partial(LimitedConnection, options),
        "backlog": backlog,
        "timeout_keep_alive": math.ceil(options.read_timeout),
    }


class LimitedConnection(H11Protocol):
    """A connection that is closed when its client keeps it waiting, or when a new one needs its place.

    The clock runs while nothing comes, while a request's head comes, and while an answer is not read. A body
    is timed by the door, which can answer.
    """

    def __init__(self, options: ServerOptions, /, **parts: Any) -> None:
        super().__init__(**parts)
        self._options = options
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = 0.0
        self._is_idle = True  # not a byte of the next request has come
        self._unread = math.inf  # bytes of an answer that the client had not taken when the clock was set

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request; where there are too many connections another one goes."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._set_clock()
        if len(self.connections) > self._options.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give a request's head its time from the first byte on."""
        if self._is_idle:
            self._is_idle = False
            self._set_clock()
        super().data_received(data)
        if self._is_answering:
            self._stop_clock()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may have come already."""
        self._is_idle = True
        self._set_clock()
        super().on_response_complete()
        if self._is_answering:
            self._is_idle = False
            self._stop_clock()

    def shutdown(self) -> None:
        """Read on for a moment before an idle connection is closed: a request may be on its way."""
        if self._is_answering:
            super().shutdown()
        else:
            self.loop.call_later(_LAST_LOOK, self._end)

    def _end(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._set_clock()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        if self._is_answering:
            self._stop_clock()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _waits_for_client(self) -> bool:
        return not self._is_answering or self.cycle.more_body or self.flow.write_paused

    def _set_clock(self) -> None:
        self._stop_clock()
        self._waits_since, self._unread = self.loop.time(), math.inf
        self._timer = self.loop.call_later(self._options.read_timeout, self._expire)

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:  # the client reads, slowly
            self._unread = unread
            self._timer = self.loop.call_later(self._options.read_timeout, self._expire)
        else:
            self.transport.abort()  # `close` would wait for what is unread

    def _make_room(self) -> None:
        """Close the connection that has waited for its client for longest."""
        waiting = [
            other for other in self.connections if isinstance(other, LimitedConnection) and other is not self
        ]
        waiting = [other for other in waiting if other._waits_for_client]
        chosen = min(waiting, key=lambda other: other._waits_since, default=self)
        self.connections.discard(chosen)  # now: others that come in this moment choose another one
        chosen.transport.abort()
        _log.warning("there are max_connections; the one that waits for its client for longest was closed")


def _allow_files(wanted: int) -> None:
    """Let this process open so many files; a DataError where the system forbids it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise DataError(
            f"the system lets this process open {hard} files, and max_connections takes {wanted}; raise the "
            "limit ('ulimit -n'), or set max_connections lower"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
