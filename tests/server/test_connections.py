"""Connections that hold a place without asking anything: timed, counted, and in nobody's way."""

import contextlib
import http.client
import logging
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import httpx
from helpers.serving import JSON, Log, served, wait_until, words_reranker

from surprise_rerank import DataError
from surprise_rerank.connectors.server import ServerOptions, create_app
from surprise_rerank.connectors.server import _process as process
from surprise_rerank.connectors.server._connections import LimitedConnection

PATIENCE = 0.5
BODY = b'{"query": "q", "texts": ["a", "b"]}'
FIELDS = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n"
HEAD = b"POST /rerank HTTP/1.1\r\n" + FIELDS
HALVES = {
    "nothing": b"",
    "half a line": b"GET /hea",
    "half a head": b"GET /health HTTP/1.1\r\nHost: loc",
    "a second half": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
    "half a body": HEAD + BODY[:5],
    "a body that nobody reads": HEAD.replace(b"application/json", b"text/plain") + BODY[:5],
}


@contextlib.contextmanager
def server(log: Log, **options: float) -> Iterator[int]:
    chosen = ServerOptions(**options)
    app = create_app(words_reranker(), options=chosen, logger=log.logger())
    with process.forwarded(log.logger()), served(app, chosen) as url:
        port = httpx.URL(url).port
        assert port is not None
        yield port


def connected(port: int, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(sent)
    return connection


def everything(connection: socket.socket) -> bytes:
    """What comes until the server closes; a test fails if it does not."""
    received = b""
    with connection, contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            received += part
    return received


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_request_on_its_way_when_the_server_ends_is_answered(monkeypatch):
    shutdown = LimitedConnection.shutdown

    def ended(self: LimitedConnection) -> None:
        shutdown(self)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

    with server(Log()) as port:
        connection = connected(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while b'"alive"' not in received:  # head and body may come one after the other
            part = connection.recv(65536)
            assert part, received
            received += part
        monkeypatch.setattr(LimitedConnection, "shutdown", ended)
    assert everything(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", HALVES)
def test_who_sends_half_a_request_is_waited_for_as_long_as_the_setting_says(sent):
    log = Log()
    with server(log, read_timeout=PATIENCE) as port:
        begun = time.monotonic()
        received = everything(connected(port, HALVES[sent]))
        assert PATIENCE * 0.9 < time.monotonic() - begun < 10
    assert received.count(b"HTTP/1.1 200") == (sent == "a second half")
    assert received.startswith(b"HTTP/1.1 408 ") == (sent == "half a body")
    assert received.startswith(b"HTTP/1.1 415 ") == sent.startswith("a body")


def test_a_head_that_comes_a_byte_at_a_time_has_no_longer():
    with server(Log(), read_timeout=PATIENCE) as port, connected(port) as connection:
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /health HTTP/1.1\r\nX: " + b"a" * 1000:
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - begun < 10


def test_a_connection_that_is_used_stays_open_longer_than_it_may_be_idle():
    with server(Log(), read_timeout=PATIENCE) as port:
        client = http.client.HTTPConnection("127.0.0.1", port)
        sockets = set()
        for _ in range(6):
            time.sleep(PATIENCE / 2)
            client.request("GET", "/health")
            assert client.getresponse().read()
            sockets.add(client.sock)
        client.close()
    assert len(sockets) == 1


def test_an_answer_that_nobody_reads_is_given_up_and_one_that_is_read_slowly_is_not():
    from fastapi import FastAPI, Response

    app, large = FastAPI(), 20 * 2**20
    app.get("/large")(lambda: Response(b"x" * large))
    app.get("/health")(lambda: "well")
    options = ServerOptions(read_timeout=1)
    with served(app, options) as url:
        port = httpx.URL(url).port
        assert port is not None
        request = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
        unread, slow = connected(port, request), connected(port, request)
        received, end = 0, time.monotonic() + 4
        while time.monotonic() < end:
            received += len(slow.recv(2**19))
            time.sleep(0.1)
        while received < large:
            received += len(slow.recv(2**20))
        assert received > large
        assert len(everything(unread)) < large


def test_more_connections_than_there_may_be_push_out_those_that_wait_and_no_answer_is_lost():
    log = Log()
    with server(log, max_connections=20, max_requests=8) as port:
        used = connected(port, HEAD)
        time.sleep(0.1)
        silent = [connected(port, HALVES["half a head"] if i % 2 else HEAD) for i in range(300)]
        for _ in range(3):
            answer = httpx.post(f"http://127.0.0.1:{port}/rerank", content=BODY, headers=JSON)
            assert answer.status_code == 200
            assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
        wait_until(lambda: sum(map(is_closed, silent)) >= 280)
        assert is_closed(used)
        for connection in (used, *silent):
            connection.close()
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    said = [line for line in log.lines if line["event"] == "server"]
    assert len(said) < 10, "a line once in a while, however many there are"
    assert "max_connections" in said[0]["said"]


def test_bodies_that_come_slowly_take_no_place_of_those_that_are_there():
    with server(Log(), max_requests=2) as port:
        slow = [connected(port, HEAD + BODY[:5]) for _ in range(20)]
        time.sleep(0.2)
        answer = httpx.post(f"http://127.0.0.1:{port}/rerank", content=BODY, headers=JSON)
        assert answer.status_code == 200
        slow[0].sendall(BODY[5:])
        assert slow[0].recv(100).startswith(b"HTTP/1.1 200 ")
        for connection in slow:
            connection.close()


def test_bodies_that_are_read_at_once_have_a_limit_of_bytes():
    with server(Log(), max_requests=2, max_body=2000) as port:
        head = HEAD.replace(b"35", b"2000")
        held = [connected(port, head + b" " * 1900) for _ in range(2)]
        time.sleep(0.2)
        with connected(port, head + b" " * 1900) as further:
            assert further.recv(100).startswith(b"HTTP/1.1 429 ")
        for connection in held:
            connection.close()
        wait_until(
            lambda: httpx.post(f"http://127.0.0.1:{port}/rerank", content=BODY, headers=JSON).is_success
        )


def test_an_equal_line_of_a_library_is_written_once_in_a_while(monkeypatch):
    log, clock = Log(), iter([0.0, 1.0, 2.0, 3.0, 30.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with process.forwarded(log.logger()):
        for text in ("invalid", "invalid", "another", "invalid", "invalid"):
            logging.getLogger("uvicorn.error").warning(text)
    assert [(line["said"], line.get("left_out")) for line in log.lines] == [
        ("invalid", None),
        ("another", None),
        ("invalid", 2),
    ]


def test_there_are_more_connections_than_requests_so_that_probes_find_a_place():
    with pytest.raises(DataError, match="max_connections=8 must be more than max_requests=8"):
        ServerOptions(max_connections=8, max_requests=8)
    resource = pytest.importorskip("resource")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        with pytest.raises(DataError, match=f"open {hard} files"):
            process.make_server(create_app(words_reranker()), ServerOptions(max_connections=hard))
