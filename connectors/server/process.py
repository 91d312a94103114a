"""The server as a process: where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from surprise_rerank.connectors.server.logs import ForwardingHandler
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    import uvicorn
    from structlog.typing import FilteringBoundLogger


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Args:
        host: a name or an address.
        port: of TCP.
        token: what callers must send.

    Raises:
        DataError: if the host is not this machine's own loopback and there is no token, or if nothing can
            listen there.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"{host!r} is no address of this machine; 127.0.0.1 is what only it reaches"
        ) from error
    family, _, _, _, address = found[0]
    if token is None and not all(_is_loopback(str(own[4][0])) for own in found):
        raise DataError(
            f"{host!r} can be reached from other machines, and there is no token; set SURPRISE_RERANK_TOKEN "
            "to a long random one, or listen on 127.0.0.1"
        )
    try:
        made = socket.create_server((str(address[0]), port), family=family, backlog=2048)
        # asyncio sets this for sockets whose protocol number says TCP, which those of `create_server` do not:
        # an answer's second packet would wait for the client's delayed acknowledgement, 40 ms.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except OSError as error:
        raise DataError(
            f"cannot listen on port {port} of {host!r} ({error.strerror or error}); choose another"
        ) from error


def make_server(app: Any, timeout: float) -> uvicorn.Server:
    """A server for an application that has its own log.

    Args:
        app: of ASGI.
        timeout: seconds that requests may take after it was told to stop.
    """
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=round(timeout) + 1,
        )
    )


def run(
    server: uvicorn.Server,
    listening: socket.socket,
    logger: FilteringBoundLogger,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal: then nothing new is accepted, and what runs is finished.

    The log says "listening" once requests are accepted: what waits for that line may ask at once.

    Args:
        server: of `make_server`.
        listening: of `listen`.
        logger: of what happens.
        on_listening: called with the server's address at that moment.
    """
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

    accepts = threading.Event()

    async def accepting() -> None:
        server.config.callback_notify = None  # uvicorn calls this again and again
        accepts.set()
        logger.info("listening", url=f"http://{shown}:{port}")
        if on_listening is not None:
            on_listening(f"http://{shown}:{port}")

    server.config.callback_notify = accepting
    with forwarded(logger):
        try:
            server.run(sockets=[listening])
        finally:
            if accepts.is_set():
                logger.info("stopped")


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Leave with code 0 when told to end.

    In place from the beginning: the first process of a container is not ended by a signal that it does not
    handle, and the server raises the one that stopped it again when all is done.
    """
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


@contextlib.contextmanager
def forwarded(logger: FilteringBoundLogger) -> Iterator[None]:
    """The libraries' own warnings as lines of this log."""
    handler = ForwardingHandler(logger)
    sources = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "mcp", "surprise_rerank")]
    for source in sources:
        source.addHandler(handler)
        source.propagate = False
    try:
        yield
    finally:
        for source in sources:
            source.removeHandler(handler)
            source.propagate = True
