"""Requests that fail are sent again while the fault may pass, and told in one line when it does not."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import grpc
import httpx
import pytest
from helpers.faults import HTML_PAGE, Broken, Fault, Proxy, Status, cleaned, server_url
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException

from surprise_rerank import StoreError
from surprise_rerank.connectors.qdrant._engines.retries import (
    CollectionExists,
    CollectionGone,
    NoAccess,
    RetryPolicy,
    TooLarge,
    call,
)

QUICK = RetryPolicy(attempts=4, first_wait=0.01, longest_wait=0.02, time_limit=20)
WHERE = "the Qdrant server at http://here, collection 'x'"
ONE = models.VectorParams(size=2, distance=models.Distance.DOT)
FULL = "Service internal error: Failed to flush: No space left on device (os error 28)"
SPLIT = (
    "Write rate limit exceeded, request larger than rate limiter capacity, please try to split your request"
)

PASSING: list[Fault] = [
    *(Status(408), Status(429), Status(502), Status(503), Status(504)),
    *(Status(429, headers={"Retry-After": own}) for own in ("0", "soon")),
    *(HTML_PAGE, Status(200, page=b"\xff\xfe not utf-8"), Broken.HALF),
    *(Broken.RESET, Broken.CUT, Broken.CLOSED),
]
# What is told at once: the fault, and what is said.
TOLD: list[tuple[Fault, str, type[StoreError]]] = [
    *((Status(own, "because\n of that"), "because of that", StoreError) for own in (400, 404, 405, 422, 500)),
    *((Status(own, "because\n of that"), str(own), StoreError) for own in (307, 501)),
    *((Status(own, page=b"Invalid API key or JWT"), "set QDRANT_API_KEY", StoreError) for own in (401, 403)),
    *((Status(own, ""), "set QDRANT_API_KEY", StoreError) for own in (401, 403)),
    *((Status(403, own), "set QDRANT_API_KEY", NoAccess) for own in ("forbidden", "key doesn't exist")),
    *(
        (Status(200, page=own), "does not answer like Qdrant; check the url", StoreError)
        for own in (b"{}", b"[]", b'{"message": "hello"}', b'{"result": {"count": "many"}}')
    ),
    *((Status(own, headers={"Retry-After": "3600"}), "wait for 3600 s", StoreError) for own in (429, 503)),
    (
        Status(500, FULL),
        f"the disk of {WHERE} is full ({FULL}); make room there, and run it again",
        StoreError,
    ),
    (
        Status(500, f"1 of 1 shards failed to apply operation: {FULL}"),
        f"the disk of {WHERE} is full",
        StoreError,
    ),
    (Status(507, "Insufficient Storage"), f"the disk of {WHERE} is full", StoreError),
    *(
        (Status(own, "Storage quota exceeded", {"Retry-After": "60"}), "the quota of", StoreError)
        for own in (403, 429, 503)
    ),
    (Status(403, "Write operations are forbidden: back-up"), "is locked (Write operations", StoreError),
    (Status(423, "because"), f"{WHERE} is locked (because)", StoreError),
    (Status(403, "Forbidden: Max vector storage size is reached"), "forbids this (Forbidden: Max", NoAccess),
    (Status(403, "Forbidden: Global manage access is required"), "set QDRANT_API_KEY", NoAccess),
    (Status(404, "Not found: Collection `x` doesn't exist!"), "any more; index again", CollectionGone),
    (Status(409, "Wrong input: Collection `x` already exists!"), "exists already", CollectionExists),
    (Status(418, page=b"<p>your headers were: api-key=secret</p>"), "answered 418", StoreError),
    (Status(413, page=b"<h1>413 Request Entity Too Large</h1>"), "too large", TooLarge),
    (Status(429, SPLIT), "too large", TooLarge),
    (Status(400, "JSON payload has exceeded limit (33554432 bytes)."), "too large", TooLarge),
    (Status(403, 'Forbidden: Limit exceeded 64 > 10 for "upsert limit".'), "too large", TooLarge),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Proxy]:
    with Proxy(answers={"count": {"count": 0}}) as made:
        yield made


@pytest.fixture
def client(server: Proxy) -> Iterator[QdrantClient]:
    server.heal()
    opened = QdrantClient(url=server.url, check_compatibility=False, timeout=1)
    yield opened
    opened.close()


class Counted:
    """A request that counts how often it is sent."""

    def __init__(self, request: Callable[[], Any]) -> None:
        self.request = request
        self.times = 0

    def __call__(self) -> Any:
        self.times += 1
        return self.request()


def failure(request: Callable[[], Any], policy: RetryPolicy = QUICK) -> StoreError:
    with pytest.raises(StoreError) as caught:
        call(request, WHERE, policy)
    message = str(caught.value)
    assert "\n" not in message
    assert WHERE in message
    assert len(message) < 500
    assert "secret" not in message
    return caught.value


@pytest.mark.parametrize("fault", PASSING, ids=str)
def test_a_fault_that_passes_is_waited_for_and_one_that_stays_is_told(server, client, fault):
    server.fault("count", fault, times=3)
    request = Counted(lambda: client.count("x").count)
    assert call(request, WHERE, QUICK) == 0
    assert request.times == 4
    server.fault("count", fault, times=100)
    assert str(failure(request)).endswith("(tried 4 times)")
    assert request.times == 8


@pytest.mark.parametrize(("fault", "said", "kind"), TOLD, ids=str)
def test_what_would_be_the_same_again_is_told_at_once(server, client, fault, said, kind):
    server.fault("count", fault)
    request = Counted(lambda: client.count("x"))
    error = failure(request)
    assert said in str(error)
    assert isinstance(error, kind)
    assert request.times == 1


@pytest.mark.parametrize(("code", "as_date"), [(429, False), (503, False), (503, True)])
def test_the_wait_that_the_server_asks_for_is_kept(server, client, code, as_date):
    # Dates have whole seconds: two seconds ahead is more than one.
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    headers = {"Retry-After": date if as_date else "1"}
    server.fault("count", Status(code, headers=headers))
    begin = time.monotonic()
    call(lambda: client.count("x"), WHERE, QUICK)
    assert 0.9 < time.monotonic() - begin < 3


def test_no_attempt_begins_after_the_time_limit():
    def refused() -> None:
        raise ResponseHandlingException(httpx.ReadError("reset"))

    request = Counted(refused)
    begin = time.monotonic()
    failure(request, RetryPolicy(attempts=10_000, first_wait=0.02, longest_wait=0.02, time_limit=0.2))
    assert time.monotonic() - begin < 5  # 10,000 attempts would take 100 s
    assert 1 < request.times < 1000


def test_an_answer_that_does_not_come_is_waited_for_until_the_timeout(server, client):
    server.fault("count", Broken.SILENT)
    begin = time.monotonic()
    assert call(lambda: client.count("x").count, WHERE, QUICK) == 0
    assert 0.9 < time.monotonic() - begin < 10
    server.fault("count", Broken.SILENT)
    said = str(failure(lambda: client.count("x"), RetryPolicy(attempts=1)))
    assert "does not answer in time; give it longer" in said


def told_what_is_there(client: QdrantClient, name: str) -> None:
    error = failure(lambda: client.count(name))
    assert isinstance(error, CollectionGone)
    assert "does not exist any more; index again" in str(error)
    client.create_collection(name, ONE)
    assert isinstance(failure(lambda: client.create_collection(name, ONE)), CollectionExists)


def test_a_collection_that_is_not_there_is_gone_and_one_that_is_exists():
    told_what_is_there(QdrantClient(":memory:"), "x")


@pytest.mark.server
def test_the_words_of_a_real_server_are_known():
    name = f"test-{uuid.uuid4()}"
    with cleaned(server_url(), name) as client:
        told_what_is_there(client, name)
        wrong = models.PointStruct(id=1, vector=[1.0, 2.0, 3.0])
        assert "expected dim: 2, got 3" in str(failure(lambda: client.upsert(name, [wrong])))
        size = 33 * 2**20
        large = models.PointStruct(id=1, vector=[1.0, 2.0], payload={"text": "x" * size})
        assert isinstance(failure(lambda: client.upsert(name, [large])), TooLarge)


@pytest.mark.parametrize(
    "bug", [ValueError("Wrong dimension"), TypeError("no"), KeyError(7), AssertionError("no")]
)
def test_mistakes_of_the_caller_stay_what_they_are(bug):
    def fails() -> None:
        raise bug

    request = Counted(fails)
    with pytest.raises(type(bug)) as caught:
        call(request, WHERE, QUICK)
    assert caught.value is bug
    assert request.times == 1


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_key_that_no_header_can_hold_is_told_without_it(server):
    client = QdrantClient(url=server.url, api_key="very-secret\n", check_compatibility=False)
    error = failure(lambda: client.count("x"))
    client.close()
    assert "QDRANT_API_KEY is one line" in str(error)
    assert "very-secret" not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None


@contextmanager
def grpc_answers(*answers: tuple[grpc.StatusCode, str]) -> Iterator[tuple[QdrantClient, list[str]]]:
    """A gRPC server that refuses with these codes in turn, the last one for ever."""
    came: list[str] = []

    class Refusing(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            def refuse(request: bytes, context: Any) -> None:
                came.append(details.method)
                context.abort(*answers[min(len(came), len(answers)) - 1])

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    client = QdrantClient(host="127.0.0.1", grpc_port=port, prefer_grpc=True, check_compatibility=False)
    try:
        yield client, came
    finally:
        client.close()
        server.stop(None)


@pytest.mark.parametrize(
    ("code", "details", "times", "kind", "words"),
    [
        ("UNAVAILABLE", "down", 4, StoreError, "cannot reach"),
        ("RESOURCE_EXHAUSTED", "Rate limiting exceeded", 4, StoreError, "Rate limiting"),
        ("DEADLINE_EXCEEDED", "late", 4, StoreError, "in time"),
        ("ABORTED", "again", 4, StoreError, "again"),
        ("UNAUTHENTICATED", "Invalid API key", 1, StoreError, "QDRANT_API_KEY"),
        ("PERMISSION_DENIED", "Access to collection x is required", 1, NoAccess, "may do this"),
        ("PERMISSION_DENIED", "Global manage access is required", 1, NoAccess, "may do this"),
        ("PERMISSION_DENIED", "Global access is required", 1, NoAccess, "may do this"),
        ("NOT_FOUND", "Not found: Collection `x` doesn't exist!", 1, CollectionGone, "index again"),
        ("NOT_FOUND", "Not found: Point", 1, StoreError, "NOT_FOUND: Not found: Point"),
        ("ALREADY_EXISTS", "Collection `x` already exists!", 1, CollectionExists, "exists already"),
        ("INVALID_ARGUMENT", "Wrong input:\n vector", 1, StoreError, "Wrong input: vector"),
        ("INTERNAL", "Service internal error: No space left on device", 1, StoreError, "make room there"),
        ("INTERNAL", "", 1, StoreError, "without a reason"),
        ("RESOURCE_EXHAUSTED", "Sent message larger than max (9 vs. 4)", 1, TooLarge, "9 vs. 4"),
        ("OUT_OF_RANGE", "Error, message length too large: found 9 bytes", 1, TooLarge, "found 9"),
    ],
)
def test_grpc_codes_are_told_apart(code, details, times, kind, words):
    with grpc_answers((grpc.StatusCode[code], details)) as (client, came):
        error = failure(lambda: client.count("x"))
    assert type(error) is kind
    assert words in str(error)
    assert len(came) == times


def test_a_server_that_does_not_speak_tls_is_told_at_once(server):
    server.heal()
    client = QdrantClient(url=server.url.replace("http:", "https:"), check_compatibility=False, timeout=1)
    request = Counted(lambda: client.count("x"))
    said = str(failure(request))
    assert "does not speak TLS as it should" in said
    assert "http:// or https://" in said
    assert request.times == 1


def test_a_server_that_speaks_tls_alone_is_told_with_the_scheme():
    alert = b"\x15\x03\x01\x00\x02\x02\x46"  # what TLS answers to HTTP
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:

        def refuse() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(alert)

        threads.submit(refuse)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        client = QdrantClient(url=url, check_compatibility=False, timeout=2)
        said = str(failure(lambda: client.count("x"), RetryPolicy(attempts=1)))
    assert "does not answer in HTTP" in said
    assert "https:// if it has TLS" in said


def test_a_certificate_that_nobody_signed_is_told_with_what_to_set(tmp_path):
    files = [tmp_path / "key.pem", tmp_path / "certificate.pem"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run([*made, "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:

        def shake_hands() -> None:
            connection, _ = listening.accept()
            with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass

        threads.submit(shake_hands)
        url = f"https://localhost:{listening.getsockname()[1]}"
        client = QdrantClient(url=url, check_compatibility=False, timeout=2)
        request = Counted(lambda: client.count("x"))
        said = str(failure(request))
    assert "is not trusted (self-signed certificate)" in said.replace("self signed", "self-signed")
    assert "SSL_CERT_FILE" in said
    assert request.times == 1


@pytest.mark.parametrize("details", ["Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", "failed to connect"])
def test_what_grpc_says_of_tls_is_told_at_once(details):
    class Unavailable(grpc.RpcError, grpc.Call):
        def code(self) -> Any:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return details

    def refused() -> None:
        raise Unavailable

    request = Counted(refused)
    said = str(failure(request))
    assert (request.times == 1) == ("CERTIFICATE" in details) == ("is not trusted" in said)


def test_docker_is_advised_for_this_machine_alone():
    def refused() -> None:
        raise ResponseHandlingException(httpx.ConnectError("refused"))

    for where, advised in (("http://localhost:6333", True), ("https://qdrant.example", False)):
        with pytest.raises(StoreError) as caught:
            call(refused, f"the Qdrant server at {where}", RetryPolicy(attempts=1))
        assert ("docker compose" in str(caught.value)) == advised
