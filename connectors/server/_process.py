"""The server as a process: where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surprise_rerank._errors import DataError
from surprise_rerank.connectors.server._logs import EventLog
from surprise_rerank.core._files import whole_file

if TYPE_CHECKING:
    import uvicorn

    from surprise_rerank.connectors.server._options import ServerOptions

# Where the token is; an option would be seen by other users.
TOKEN_VARIABLE = "SURPRISE_RERANK_TOKEN"
_SERVED = "served.json"  # in the folder of an index: where documents for it can be sent


def served_at(folder: Path) -> str | None:
    """Return the address of the server that has an index's folder open, as far as that is noted there."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        return str(json.loads((folder / _SERVED).read_bytes())["url"])
    return None


@contextlib.contextmanager
def noting_served(folder: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that notes the server's address in the index's folder while the block serves it."""
    if folder is None:
        yield lambda url: None
        return

    def note(url: str) -> None:
        with contextlib.suppress(OSError), whole_file(folder / _SERVED, private=True) as file:
            file.write(json.dumps({"url": url}).encode())

    try:
        yield note
    finally:
        with contextlib.suppress(OSError):
            (folder / _SERVED).unlink(missing_ok=True)


def listen(host: str, port: int, *, asks_for_tokens: bool) -> socket.socket:
    """Return a socket that listens on a host and a port; port 0 takes a free one."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"{host!r} is no address of this machine; 127.0.0.1 is what only it reaches"
        ) from error
    addresses = [str(address[4][0]) for address in infos]
    if not asks_for_tokens and not all(
        ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses
    ):
        raise DataError(
            f"{host!r} can be reached from other machines, and there is no token; set SURPRISE_RERANK_TOKEN "
            "to a long random one, name a file of tokens in the settings, or listen on 127.0.0.1"
        )
    try:
        listening = socket.create_server((addresses[0], port), family=infos[0][0], backlog=2048)
    except OSError as error:
        raise DataError(
            f"cannot listen on port {port} of {host!r} ({error.strerror or error}); choose another"
        ) from error
    # asyncio sets this for sockets whose protocol number says TCP, which those of `create_server` do not: an
    # answer's second packet would wait for the client's delayed acknowledgement, 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def make_server(app: Any, options: ServerOptions) -> uvicorn.Server:
    """Return a server for an application of ASGI with its own log; its end waits for `options.timeout`."""
    import uvicorn

    from surprise_rerank.connectors.server._connections import limited

    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=round(options.timeout) + 1,
            **limited(options),
        )
    )


def run(
    server: uvicorn.Server,
    listening: socket.socket,
    logger: EventLog,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal: then nothing new is accepted, and what runs is finished.

    The log says "listening" once requests are accepted, and `on_listening` is called with the address.
    """
    host, port = listening.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def accepting() -> None:
        server.config.callback_notify = None  # uvicorn calls this again and again
        logger.say("listening", url=url)
        if on_listening is not None:
            on_listening(url)

    server.config.callback_notify = accepting
    with forwarded(logger):
        try:
            server.run(sockets=[listening])
        finally:
            logger.say("stopped")


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Leave with code 0 when told to end: the server raises its signal again when all is done."""
    # The first process of a container is not ended by a signal that it does not handle.
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def forwarded(logger: EventLog) -> Iterator[None]:
    """The libraries' own warnings as lines of this log."""
    sources = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "mcp", "surprise_rerank")]
    for source in sources:
        source.addHandler(logger)
        source.propagate = False
    try:
        yield
    finally:
        for source in sources:
            source.removeHandler(logger)
            source.propagate = True
