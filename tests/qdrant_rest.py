"""A server that speaks Qdrant's REST API over qdrant-client's local mode, and misbehaves when it is told to.

    with QdrantRest() as rest:
        client = QdrantClient(url=rest.url)
        rest.fault("PUT", "/points", Status(429, headers={"Retry-After": "1"}), times=2)

It answers what qdrant-client sends; searches are exact, payload indexes are remembered and not used. Answers
are compressed for whoever accepts gzip, however short they are, as the real server's are.
"""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import uuid
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient
from qdrant_routes import MIB, LocalApi, error_answer

_OPEN_TO_ALL = frozenset({"/", "/healthz", "/livez", "/readyz"})


@dataclass(frozen=True)
class Status:
    """Answers with this status, and does nothing: 429 with Retry-After, 503, 401, a proxy's page with 200."""

    code: int
    reason: str = "no reason"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    page: bytes | None = None


HTML_PAGE = Status(200, headers={"Content-Type": "text/html"}, page=b"<html><body>Welcome</body></html>")


@dataclass(frozen=True)
class Reset:
    """Resets the connection before the body of the request is read."""


@dataclass(frozen=True)
class CutBody:
    """Carries the request out, announces an answer, sends half of it, and resets or closes the connection."""

    reset: bool = True


@dataclass(frozen=True)
class NoAnswer:
    """Carries the request out and keeps still until the client has given up."""

    seconds: float = 30.0


@dataclass(frozen=True)
class Slow:
    """Answers late."""

    seconds: float


@dataclass(frozen=True)
class TruncatedJson:
    """Carries the request out, and answers half of the JSON, of the length that it announced."""


@dataclass(frozen=True)
class DropCollection:
    """Deletes the collection first, and goes on: this request and all later ones get 404."""


Fault = Status | Reset | CutBody | NoAnswer | Slow | TruncatedJson | DropCollection


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class _Script:
    method: str
    ending: str
    fault: Fault
    times: int
    after: int


class QdrantRest:
    """The server; a context manager. `store` is the local client behind it, for looks from the other side.

    Args:
        api_key: asked for in the header `api-key`, where given.
        limit: bytes of the largest body accepted.
        folder: where the local mode stores; in memory by default, which outlives `stop` and `start`.
    """

    def __init__(
        self, *, api_key: str | None = None, limit: int = 32 * MIB, folder: Path | None = None
    ) -> None:
        self.api_key = api_key
        self.api = LocalApi(folder, limit)
        self.lock = threading.Lock()
        self.seen: deque[Seen] = deque(maxlen=500)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._scripts: list[_Script] = []
        self._port = 0
        self._server: _Server | None = None
        self.stopping = threading.Event()

    def __enter__(self) -> QdrantRest:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.store.close()

    @property
    def store(self) -> QdrantClient:
        return self.api.store

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen; on the port that it had, after a `stop`."""
        self.stopping.clear()
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.rest = self
        self._port = self._server.server_address[1]
        # The poll bounds how long `stop` takes.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop to listen and cut every connection; what is stored stays."""
        if self._server is not None:
            self.stopping.set()
            self._server.shutdown()
            self._server.server_close()
            self._server.cut()
            self._server = None

    def fault(self, method: str, ending: str, fault: Fault, *, times: int = 1, after: int = 0) -> None:
        """Misbehave at the next `times` requests of this method whose path ends so, after some that pass."""
        with self.lock:
            self._scripts.append(_Script(method, ending, fault, times, after))

    def heal(self) -> None:
        """Forget the faults that are still to come."""
        with self.lock:
            self._scripts.clear()

    def forget(self) -> None:
        """Forget the faults, and the requests that came."""
        with self.lock:
            self._scripts.clear()
            self._counts.clear()
            self.seen.clear()

    def count(self, method: str, ending: str) -> int:
        """How many such requests have come, those that met a fault included."""
        with self.lock:
            return sum(n for (m, path), n in self._counts.items() if m == method and path.endswith(ending))

    def note(self, seen: Seen) -> None:
        with self.lock:
            self.seen.append(seen)

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Count a request; the fault that it meets, if any."""
        with self.lock:
            self._counts[method, path] += 1
            for script in self._scripts:
                if script.method == method and path.endswith(script.ending) and script.times:
                    if script.after:
                        script.after -= 1
                        continue
                    script.times -= 1
                    return script.fault
        return None

    def drop(self, path: str) -> None:
        self.api.drop(unquote(path.split("/")[2]))

    def answer(self, method: str, path: str, query: str, key: str | None, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""
        if self.api_key is not None and key != self.api_key and path not in _OPEN_TO_ALL:
            return 401, b"Must provide an API key or an Authorization bearer token"  # plain text there, too
        return self.api.answer(method, path, query, body)


def fresh_collection() -> str:
    """A name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    rest: QdrantRest

    def __init__(self, *args: Any) -> None:
        self.open: set[socket.socket] = set()
        self.to_reset: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        if request in self.to_reset:
            self.to_reset.discard(request)
            request.close()  # without the orderly end that `super` sends first
            return
        super().shutdown_request(request)

    def cut(self) -> None:
        """End the connections that are open: their threads wait for another request."""
        for connection in tuple(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                self.open.discard(connection)  # the client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that went away are what the faults are for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing: no output in tests."""

    def _serve(self) -> None:
        rest = self.server.rest
        address = urlsplit(self.path)
        fault = rest.take_fault(self.command, address.path)
        if isinstance(fault, Reset):
            rest.note(Seen(self.command, self.path, dict(self.headers), b""))
            self._reset()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        rest.note(Seen(self.command, self.path, dict(self.headers), body))
        if isinstance(fault, Status):
            code, content = error_answer(fault.code, fault.reason)
            self._send(code, content if fault.page is None else fault.page, fault.headers)
            return
        if isinstance(fault, Slow):
            rest.stopping.wait(fault.seconds)
        if isinstance(fault, DropCollection):
            rest.drop(address.path)
        code, content = rest.answer(
            self.command, address.path, address.query, self.headers.get("api-key"), body
        )
        self._send_maimed(fault, code, content)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _send_maimed(self, fault: Fault | None, code: int, content: bytes) -> None:
        match fault:
            case NoAnswer(seconds):
                self.server.rest.stopping.wait(seconds)
                self._reset()
            case CutBody(reset):
                self._send(code, content, share=0.5)
                self.close_connection = True
                if reset:
                    self._reset()
            case TruncatedJson():
                self._send(code, content[: len(content) // 2])
            case _:
                self._send(code, content)

    def _send(
        self, code: int, content: bytes, headers: Mapping[str, str] | None = None, *, share: float = 1.0
    ) -> None:
        """Send an answer, or a share of what is announced; compressed as the real server does it."""
        headers = {
            "Content-Type": "application/json" if content[:1] in b"{[" else "text/plain",
            **(headers or {}),
        }
        if content and "gzip" in self.headers.get("Accept-Encoding", ""):
            content, headers["Content-Encoding"] = gzip.compress(content, 1), "gzip"
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: round(share * len(content))])
        self.wfile.flush()

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.server.to_reset.add(self.connection)
