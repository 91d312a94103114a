"""Structured logs: one line for every request, without what was asked."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def make_logger(stream: TextIO, *, as_json: bool = True, least: int = logging.INFO) -> FilteringBoundLogger:
    """A logger that writes lines of JSON, or for people, to a stream; nothing global is set up.

    JSON has the time of UTC, and people that of their clock. `least` is a level of `logging`.
    """
    import structlog

    colors = stream.isatty() and not os.environ.get("NO_COLOR")
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=colors),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
    )
    return logger


def log_failure(logger: FilteringBoundLogger, request_id: str, error: BaseException) -> None:
    """Write down an error: its class and its place."""
    logger.error("failed", request_id=request_id, error=type(error).__name__, at=_place_of(error))


def _place_of(error: BaseException) -> str:
    """Where an error was raised, as module and line: its message may hold what was asked."""
    trace = error.__traceback__
    if trace is None:
        return "unknown"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__', 'unknown')}:{trace.tb_lineno}"


class ForwardingHandler(logging.Handler):
    """Hands on what a library logs: its first line, without stack traces.

    What asyncio appends to it are objects as they print themselves, errors with their messages among them.
    """

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """One line for one record."""
        error = record.exc_info[1] if record.exc_info else None
        more = {} if error is None else {"error": type(error).__name__, "at": _place_of(error)}
        said = record.getMessage().partition("\n")[0]
        self._logger.log(record.levelno, "server", source=record.name, said=said, **more)
