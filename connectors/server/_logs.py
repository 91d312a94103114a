"""The server's log: a line for every event, without what was asked."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

_QUIET = 10.0  # seconds between two equal lines of a library
_REMEMBERED = 1000  # different lines


# Of the request that a line is about; threads that work for it inherit it.
REQUEST_ID: ContextVar[str] = ContextVar("surprise_rerank_request_id", default="")


class EventLog(logging.Handler):
    """Writes lines of JSON, or for people, to a stream. As a handler it takes what libraries log.

    JSON has the time of UTC, and people that of their clock. `least` is a level of `logging`.
    """

    def __init__(self, stream: TextIO, *, as_json: bool = True, least: int = logging.INFO) -> None:
        super().__init__(logging.WARNING)
        self._stream, self._as_json, self._least = stream, as_json, least
        self._turn = threading.Lock()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def say(self, event: str, level: int = logging.INFO, **values: Any) -> None:
        """Write down an event with its values."""
        if level < self._least:
            return
        now, name = datetime.now(UTC), logging.getLevelName(level).lower()
        if self._as_json:
            stamps = {"event": event, "level": name, "timestamp": now.isoformat()}
            line = json.dumps({**values, **stamps}, default=str)
        else:
            said = " ".join(f"{key}={value}" for key, value in values.items())
            line = f"{now.astimezone():%H:%M:%S} {name}: {event} {said}".rstrip()
        with self._turn:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def fail(self, request_id: str, error: BaseException) -> None:
        """Write down an error: its class and its place."""
        self.say("failed", logging.ERROR, request_id=request_id, **_fault(error))

    def emit(self, record: logging.LogRecord) -> None:
        """Write the first line of what a library logs, the same one once in a while: clients cause some.

        What asyncio appends may have messages of errors in it.
        """
        fault = _fault(record.exc_info[1]) if record.exc_info and record.exc_info[1] else {}
        said = record.getMessage().partition("\n")[0]
        now, (last, left_out) = time.monotonic(), self._said.get((record.name, said), (-math.inf, 0))
        if now - last < _QUIET:
            self._said[record.name, said] = last, left_out + 1
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[record.name, said] = now, 0
        more: dict[str, Any] = {"left_out": left_out} if left_out else {}
        if request_id := REQUEST_ID.get():
            more["request_id"] = request_id
        self.say("server", record.levelno, source=record.name, said=said, **fault, **more)


def _fault(error: BaseException) -> dict[str, str]:
    """An error's class, and where it was raised as module and line: its message may hold what was asked."""
    trace, place = error.__traceback__, "unknown"
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', 'unknown')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return {"error": type(error).__name__, "at": place}
