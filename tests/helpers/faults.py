"""Requests to Qdrant that fail on purpose: on their way to a server, or in qdrant-client's local mode.

    with Proxy("http://127.0.0.1:6333") as proxy:  # or Proxy(answers={"count": {"count": 3}}), alone
        client = QdrantClient(url=proxy.url)
        proxy.fault("upsert", Status(429, headers={"Retry-After": "1"}), times=2)

Requests have the names that `QdrantClient` gives them. Tests with the marks `server` and `cluster` use the
Qdrant of QDRANT_URL.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import re
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote, urlsplit

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

TOO_OLD = ", the first that has "  # in what is said of a server that lacks a feature


def server_url() -> str:
    """The first address of QDRANT_URL; skips the test where there is none."""
    first = os.environ.get("QDRANT_URL", "").split(",")[0].strip()
    if not first:
        pytest.skip("no Qdrant server: set QDRANT_URL (docker compose up -d)")
    return first


@contextlib.contextmanager
def cleaned(url: str, prefix: str) -> Iterator[QdrantClient]:
    """A client of a server; the collections whose name begins so are removed afterwards."""
    client = QdrantClient(url, api_key=os.environ.get("QDRANT_API_KEY"), check_compatibility=False)
    try:
        yield client
    finally:
        for collection in client.get_collections().collections:
            if collection.name.startswith(prefix):
                client.delete_collection(collection.name)
        client.close()


_ONE = "/collections/[^/]+"
_PATHS = {
    "info": "GET /",
    "get_collections": "GET /collections",
    "get_aliases": "GET /aliases",
    "cluster_status": "GET /cluster",
    "update_collection_aliases": "POST /collections/aliases",
    "create_collection": f"PUT {_ONE}",
    "get_collection": f"GET {_ONE}",
    "update_collection": f"PATCH {_ONE}",
    "delete_collection": f"DELETE {_ONE}",
    "collection_exists": f"GET {_ONE}/exists",
    "collection_cluster_info": f"GET {_ONE}/cluster",
    "create_payload_index": f"PUT {_ONE}/index",
    "upsert": f"PUT {_ONE}/points",
    "retrieve": f"POST {_ONE}/points",
    "delete": f"POST {_ONE}/points/delete",
    "scroll": f"POST {_ONE}/points/scroll",
    "count": f"POST {_ONE}/points/count",
    "update_vectors": f"PUT {_ONE}/points/vectors",
    "batch_update_points": f"POST {_ONE}/points/batch",
    "query_batch_points": f"POST {_ONE}/points/query/batch",
}
_SPREAD = ("shard_number", "replication_factor", "write_consistency_factor")


@dataclass(frozen=True)
class Status:
    """Answers with this status, and does nothing: 429 with Retry-After, 503, 401, a proxy's page with 200.

    Of requests `above` so many bytes; others pass.
    """

    code: int
    reason: str = "no reason"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    page: bytes | None = None
    above: int = -1

    @property
    def content(self) -> bytes:
        return json.dumps({"status": {"error": self.reason}}).encode() if self.page is None else self.page


class Broken(Enum):
    """What becomes of a connection; all but the first carry the request out."""

    RESET = "is reset before anything is done"
    CUT = "an answer is announced, half of it sent, and the connection reset"
    CLOSED = "the same, and the connection is closed"
    SILENT = "nothing comes until the client has given up"
    HALF = "half of the JSON comes, of the length that was announced"


Fault = Status | Broken
HTML_PAGE = Status(200, headers={"Content-Type": "text/html"}, page=b"<html><body>Welcome</body></html>")


@dataclass
class _Script:
    request: str
    collection: str
    fault: Fault
    times: int
    after: int


class Faults:
    """Which requests fail, and how many of each came. `prefix` begins the names of a test's collections."""

    store: QdrantClient  # for looks from behind

    def __init__(self) -> None:
        self.prefix = f"test-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._came: list[tuple[str, str]] = []
        self._scripts: list[_Script] = []
        self.searches: list[dict[str, Any]] = []  # that came by REST

    def fault(
        self, request: str, fault: Fault, *, collection: str = "", times: int = 1, after: int = 0
    ) -> None:
        """Misbehave at the next such requests, to a collection whose name ends so, after some that pass."""
        with self._lock:
            self._scripts.append(_Script(request, collection, fault, times, after))

    def heal(self) -> None:
        """Forget the faults that are still to come, and the requests that came."""
        with self._lock:
            self._scripts.clear()
            self._came.clear()

    def came(self, request: str, collection: str = "") -> int:
        """How many such requests have come, those that met a fault included."""
        with self._lock:
            return sum(seen == request and name.endswith(collection) for seen, name in self._came)

    def met(self, request: str, collection: str) -> Fault | None:
        """Count a request; the fault that it meets, if any."""
        with self._lock:
            self._came.append((request, collection))
            for script in self._scripts:
                if script.request == request and collection.endswith(script.collection) and script.times:
                    if script.after:
                        script.after -= 1
                        continue
                    script.times -= 1
                    return script.fault
        return None

    def collections(self) -> list[str]:
        """The names of the test's collections."""
        collections = self.store.get_collections().collections
        return sorted(
            collection.name for collection in collections if collection.name.startswith(self.prefix)
        )


class FaultyMemory(Faults):
    """qdrant-client's local mode in the place of a server's client; it fails with the errors of that.

    Searches are exact. How a collection is spread, and its payload indexes, are remembered and not used.
    """

    url = "http://memory.example"
    init_options: ClassVar = {"prefer_grpc": False}

    def __init__(self) -> None:
        super().__init__()
        self.store = QdrantClient(":memory:")
        self.is_stopped = False
        self.settings: dict[str, dict[str, Any]] = {}
        self.indexes: dict[str, dict[str, Any]] = {}
        self._one = threading.RLock()
        self.http = SimpleNamespace(client=SimpleNamespace(request=self._searched))

    def stop(self) -> None:
        """Be away."""
        self.is_stopped = True

    def start(self) -> None:
        """Answer again."""
        self.is_stopped = False

    def close(self) -> None:
        """Nothing: it outlives the indexes in it, as a server does."""

    def cluster_status(self) -> object:
        """That of a server that is no cluster."""
        return SimpleNamespace()

    def __getattr__(self, name: str) -> Any:
        method = getattr(type(self), f"_{name}", None)
        request = method.__get__(self) if method else getattr(self.store, name)
        return functools.partial(self._send, name, request) if name in _PATHS else request

    def _send(self, name: str, request: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.is_stopped:
            raise ResponseHandlingException(httpx.ConnectError("Connection refused"))
        fault = self.met(name, arguments[0] if arguments and isinstance(arguments[0], str) else "")
        if isinstance(fault, Status) and (
            fault.above < 0 or sum(len(point.model_dump_json()) for point in arguments[1]) > fault.above
        ):
            headers = httpx.Headers(dict(fault.headers))
            raise UnexpectedResponse(fault.code, fault.reason, fault.content, headers)
        if fault is Broken.RESET:
            raise ResponseHandlingException(httpx.ReadError("Connection reset by peer"))
        for id_ in named.get("ids", ()):
            if not isinstance(id_, int):
                uuid.UUID(id_)  # local mode takes other ids, a server does not
        with self._one:
            answer = request(*arguments, **named)
        match fault:
            case Broken.CUT | Broken.CLOSED:
                raise ResponseHandlingException(httpx.RemoteProtocolError("peer closed connection"))
            case Broken.SILENT:
                raise ResponseHandlingException(httpx.ReadTimeout("timed out"))
            case Broken.HALF:
                raise json.JSONDecodeError("Unterminated string", "", 0)
        return answer

    def _searched(self, *, path_params: Mapping[str, str], content: str, **_: Any) -> dict[str, Any]:
        """A batch of searches in JSON."""
        self.searches += json.loads(content)["searches"]
        values = json.loads(
            content, parse_float=lambda digits: float(np.float32(digits))
        )  # as a server reads
        queries = TypeAdapter(models.QueryRequestBatch).validate_python(values).searches
        plain = [query.model_copy(update={"params": None}) for query in queries]  # local mode warns of them
        responses = self.query_batch_points(path_params["collection_name"], plain)
        return {"result": [json.loads(response.model_dump_json()) for response in responses]}

    def _create_collection(self, name: str, *arguments: Any, **named: Any) -> Any:
        self.settings[name] = {setting: named.pop(setting) for setting in _SPREAD if setting in named}
        return self.store.create_collection(name, *arguments, **named)

    def _get_collection(self, name: str) -> models.CollectionInfo:
        info = self.store.get_collection(name)
        for setting, value in self.settings.get(name, {}).items():
            setattr(info.config.params, setting, value)
        return info

    def _create_payload_index(self, name: str, path: str, schema: Any, **_: Any) -> None:
        self.indexes.setdefault(name, {})[path] = schema

    def _collection_cluster_info(self, name: str) -> models.CollectionClusterInfo:
        count, active = self.store.count(name).count, models.ReplicaState.ACTIVE
        shard = models.LocalShardInfo(shard_id=0, points_count=count, state=active)
        return models.CollectionClusterInfo(
            peer_id=7, shard_count=1, local_shards=[shard], remote_shards=[], shard_transfers=[]
        )


class Seen(NamedTuple):
    """A request as it came."""

    name: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Proxy(Faults):
    """Stands before a server, or before answers to requests by their names; other ones are answered `true`.

    What is no HTTP/1, as gRPC, passes as it is, until `stop`. An answer in bytes is the whole of it.
    """

    def __init__(self, behind: str | None = None, answers: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.behind, self.answers = urlsplit(behind or ""), dict(answers or {})
        self.seen: list[Seen] = []
        self.stopping = threading.Event()
        self._port = 0

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; on the port that it had, after a `stop`."""
        self.stopping.clear()
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.proxy, self._port = self, self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self._port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop to listen, and cut every connection."""
        if not self.stopping.is_set():
            self.stopping.set()
            self._server.shutdown()
            self._server.server_close()
            for connection in self._server.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def answer(self, seen: Seen, method: str) -> tuple[int, bytes]:
        """What is behind it says."""
        if self.behind.hostname is None:
            answer = self.answers.get(seen.name, True)
            answer = answer(seen) if callable(answer) else answer
            return 200, answer if isinstance(answer, bytes) else json.dumps({"result": answer}).encode()
        link = http.client.HTTPConnection(self.behind.hostname, self.behind.port or 6333, timeout=60)
        with contextlib.closing(link):
            plain = {"Connection": "close", "Accept-Encoding": "identity"}
            link.request(method, seen.path, seen.body, {**seen.headers, **plain})
            response = link.getresponse()
            return response.status, response.read()


class _Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 64
    proxy: Proxy

    def __init__(self, *arguments: Any) -> None:
        self.open: list[socket.socket] = []
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that went away are what the faults are for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing: no output in tests."""

    def handle(self) -> None:
        if self.connection.recv(3, socket.MSG_PEEK) != b"PRI":  # as HTTP/2 begins
            super().handle()
            return
        behind = self.server.proxy.behind
        with socket.create_connection((behind.hostname or "", behind.port or 6334)) as link:
            self.server.open.append(link)
            threading.Thread(target=_pump, args=(link, self.connection), daemon=True).start()
            _pump(self.connection, link)

    def _serve(self) -> None:
        proxy, path = self.server.proxy, urlsplit(self.path).path
        request = f"{self.command} {path}"
        name = next((name for name, pattern in _PATHS.items() if re.fullmatch(pattern, request)), request)
        fault = proxy.met(name, unquote("".join(path.split("/")[2:3])))
        if fault is Broken.RESET:
            self._reset()
            return
        size = int(self.headers.get("Content-Length", 0))
        seen = Seen(name, self.path, dict(self.headers), self.rfile.read(size))
        proxy.seen.append(seen)
        if name == "query_batch_points":
            proxy.searches += json.loads(seen.body)["searches"]
        if isinstance(fault, Status) and size > fault.above:
            self._send(fault.code, fault.content, fault.headers)
            return
        code, content = proxy.answer(seen, self.command)
        if fault is Broken.SILENT:
            proxy.stopping.wait(30)
        elif fault in (Broken.CUT, Broken.CLOSED):
            self._send(code, content, share=0.5)
        else:
            self._send(code, content[: len(content) // 2] if fault is Broken.HALF else content)
        if fault in (Broken.SILENT, Broken.CUT):
            self._reset()
        self.close_connection |= fault is Broken.CLOSED

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _send(
        self, code: int, content: bytes, headers: Mapping[str, str] | None = None, share: float = 1.0
    ) -> None:
        """Send an answer, or a share of what is announced."""
        self.send_response(code)
        kind = "application/json" if content[:1] in b"{[" else "text/plain"
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: round(share * len(content))])

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())  # at once, without the orderly end that a server sends first


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(2**16):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
