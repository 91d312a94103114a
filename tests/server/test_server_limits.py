"""What the server refuses, what it does with callers that are slow or gone, and what it writes down."""

import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import httpx
from fastapi import FastAPI
from fastapi.testclient import TestClient
from helpers.serving import (
    JSON,
    Log,
    SteppingEncoder,
    client_of,
    served,
    service_of,
    wait_until,
    words_reranker,
)
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, Pipeline, StoreError, TextReranker
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.server import ServerOptions, Service, create_app, service_app
from surprise_rerank.connectors.server import _process as process
from surprise_rerank.encoders.base import Encoded

SECRET = "zebra"  # stands in documents, questions and tokens, and must stand nowhere else
SMALL = ServerOptions(max_body=1000, max_documents=3, max_characters=50)
BODIES = {
    "/v1/rerank": {"query": "q", "documents": ["a", "b"]},
    "/v2/rerank": {"query": "q", "documents": ["a", "b"]},
    "/rerank": {"query": "q", "texts": ["a", "b"]},
}
PATHS = sorted(BODIES)


def limited(options: ServerOptions, log: Log | None = None) -> TestClient:
    return client_of(create_app(words_reranker(), options=options, logger=(log or Log()).logger()))


def message(answer: httpx.Response) -> str:
    """The error, in the form of the service that was asked."""
    body = answer.json()
    if answer.request.url.path == "/rerank":
        assert set(body) == {"error", "error_type"}
        return body["error"]
    assert set(body) == {"message", "detail"}
    assert body["message"] == body["detail"]
    return body["message"]


# Bodies


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with DocumentIndex.open(tmp_path_factory.mktemp("refusing") / "index", WordEncoder()) as index:
        index.sync([Document("d", "dogs bark")], background=False)
        limits = {"max_body": 5000, "max_documents": 3, "max_characters": 50}
        client = client_of(service_app(service_of(index, token=SECRET, **limits)))
        client.headers |= {"Authorization": f"Bearer {SECRET}", **JSON}
        yield client
        assert len(index) == 1


def conditions(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"filter": {"must": rows}}


WRONG_OF_ALL = [
    (b"", 422, "the body: field required"),
    (b"{", 400, "the body is no JSON from character 1 on"),
    (b"\xff", 400, "the body is no JSON"),
    (b"[" * 900, 400, "the body is no JSON"),
    (b"1" * 900, 422, "the body: "),
    (b"[]", 422, "the body: input should be an object"),
    (b'{"query": "cats", "tenant": "a", "tenant": "b"}', 422, "a key twice; send each once"),
    (b'{"query": "cats", "a": [{"b": {}, "b": {}}]}', 422, "a key twice; send each once"),
    (b" " * 6000, 413, "more than 5000 bytes"),
]
WRONG_TEXTS = [
    ({"query": " "}, 422, "query: the question is empty; ask in words"),
    ({"query": 1}, 422, "query: input should be a valid string"),
    ({"query": "q" * 51}, 0, "query has 51 characters"),
    ({"TEXTS": ["a", 1]}, 422, "[1]"),
    ({"TEXTS": ["a"] * 4}, 0, "at most 3 are taken; send fewer"),
    ({"TEXTS": ["a", "b" * 51]}, 0, "[1] has 51 characters"),
    ({"min_percentile": float("nan")}, 422, "min_percentile"),
    ({"min_percentile": "1"}, 422, "min_percentile"),
    ({"min_percentile": 0.5}, 422, "no background"),
]
WRONG_SEARCHES = [
    ({"filterr": {}}, "did you mean 'filter'"),
    ({"top_n": 3}, "not known"),
    ({"query": " "}, "query: the question is empty; ask in words"),
    ({"filter": []}, "filter"),
    (conditions({"key": "a[", "match": {"value": 1}}), "invalid JSON path a["),
    (conditions({"key": "a"}), "must[0] tests nothing"),
    (conditions(*({"key": "a", "match": {"value": i}} for i in range(65))), "more than 64"),
    ({"system": "dynmax"}, "did you mean 'dynamax'"),
    ({"system": "surprise"}, "none of that name"),
    ({"compare_with": "nothing"}, "compare_with: the index has none of that name; there are dynamax"),
    ({"depth": 0}, "depth"),
    ({"offset": False}, "offset: input should be a valid integer"),  # which Python takes for a number
    ({"context": True}, "context: input should be a valid integer"),
    ({"depth": 5000}, "depth is 5000"),
]
WRONG_DOCUMENTS = [
    ([{"id": "a"}], "text"),
    ([{"id": "", "text": "a"}], "id"),
    ([{"id": "a", "text": "a", "meta": {}}], "meta"),
    ([{"id": "a", "text": "a"}, {"id": "a", "text": "b"}], "'a'"),
    ([{"id": "a", "text": "x" * 51}], "at most 50"),
    ([{"id": str(i), "text": "a"} for i in range(4)], "at most 3"),
]
WRONG = [
    *((path, *wrong) for path in (*PATHS, "/v1/search", "/v1/documents") for wrong in WRONG_OF_ALL),
    *((path, *wrong) for path in PATHS for wrong in WRONG_TEXTS),
    *(("/v1/search", {"query": "q", "top_k": 2, **wrong}, 422, said) for wrong, said in WRONG_SEARCHES),
    *(("/v1/documents", {"documents": wrong}, 422, said) for wrong, said in WRONG_DOCUMENTS),
    ("/v1/documents", {"document": []}, 422, "document"),
    ("/v1/rerank", {"query": "q", "documents": [{"body": "a"}]}, 422, "documents[0] has no string to rank"),
]


@pytest.mark.parametrize(("path", "body", "status", "said"), WRONG)
def test_what_is_wrong_is_refused_in_the_services_own_form(refusing, path, body, status, said):
    if not isinstance(body, bytes):
        name = "texts" if path == "/rerank" else "documents"
        if path in PATHS:
            body = {"query": "q", name: body.get("TEXTS", ["a"]), **body}
        body = json.dumps(body).encode()
    answer = refusing.request("PUT" if path == "/v1/documents" else "POST", path, content=body)
    assert answer.status_code == (status or (413 if path == "/rerank" else 422))
    assert said in message(answer)


def test_a_body_is_taken_that_is_declared_as_json_and_by_a_method_that_there_is():
    client, content = limited(SMALL), b'{"query": "q", "texts": ["a", "\\udc00 b"], "return_text": true}'
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x"}):
        answer = client.post("/rerank", content=content, headers=headers)
        assert answer.status_code == 415
        assert "application/json" in message(answer)
    declared = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = client.post("/rerank", content=content, headers=declared)
    assert {rank["text"] for rank in answer.json()} == {"a", "\ufffd b"}  # no half of a character
    assert [client.request(method, "/info").status_code for method in ("TRACE", "PUT", "POST")] == [405] * 3


@pytest.mark.parametrize(
    ("name", "opening", "levels", "status"),
    [("id", "[", 100, 200), ("more", '{"a":', 100, 200), ("id", '{"a":', 101, 422), ("more", "[", 480, 422)],
)
def test_fields_that_are_nested_too_deep_are_refused(name, opening, levels, status):
    nested = opening * levels + "1" + ("]" if opening == "[" else "}") * levels
    content = (
        f'{{"query": "q", "documents": [{{"text": "a", "{name}": {nested}}}], "return_documents": true}}'
    )
    answer = limited(ServerOptions()).post("/v1/rerank", content=content, headers=JSON)
    assert answer.status_code == status
    assert ("of more than 100 levels" in answer.text) == (status == 422)


def test_a_body_without_a_length_is_refused_as_soon_as_it_is_too_large():
    endless = itertools.repeat(b" " * 500, 4000)
    with served(create_app(words_reranker(), options=SMALL, logger=Log().logger())) as url:
        answer = httpx.post(f"{url}/rerank", content=endless, headers=JSON, timeout=20)
        assert answer.status_code == 413
        assert httpx.post(f"{url}/rerank", json=BODIES["/rerank"]).status_code == 200


HEAD = (
    b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
)


def test_a_body_that_does_not_come_is_not_waited_for():
    options = ServerOptions(read_timeout=0.3)
    log = Log()
    with served(create_app(words_reranker(), options=options, logger=log.logger())) as url:
        port = httpx.URL(url).port
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(HEAD + b"{")
            assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(HEAD + b"{")
        wait_until(lambda: 499 in [line.get("status") for line in log.lines])


# Tokens


@pytest.mark.parametrize("path", [*PATHS, "/info", "/metrics", "/openapi.json", "/no/such/path"])
def test_a_missing_or_wrong_token_is_refused_everywhere_but_at_the_probes(path):
    client = limited(ServerOptions(token=SECRET))
    method = "POST" if path in BODIES else "GET"
    for header in (
        None,
        "Bearer wrong",
        f"Basic {SECRET}",
        SECRET,
        "Bearer",
        f"Bearer {SECRET}x",
        "Bearer ü",
    ):
        headers = {} if header is None else {"Authorization": header.encode()}
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 401, header
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert SECRET not in message(answer)
    for probe in ("/health", "/ready"):
        assert client.get(probe).status_code == 200
    for scheme in ("Bearer", "bearer", "BEARER "):
        right = {"Authorization": f"{scheme} {SECRET}"}
        assert client.request(method, path, json=BODIES.get(path), headers=right).status_code in (200, 404)


# Names of other machines


FOREIGN = [
    *({"Host": host} for host in ("evil.example:8000", "localhost.evil.example", "localhost@evil.example")),
    *({"Host": host} for host in ("", "192.0.2.1", "127.0.0.1.evil.example")),
    *({"Origin": origin} for origin in ("http://evil.example", "null", "http://[::1")),
]
OWN = [
    *({"Host": host} for host in ("[::1]:8000", "proxy.example")),
    {"Host": "localhost:8000", "Origin": "http://localhost:8000"},
    {"Host": "127.0.0.1:1", "Origin": "https://127.0.0.1"},
]


def test_a_token_of_white_space_opens_nothing():
    with pytest.raises(DataError, match="token: "):
        ServerOptions(token=" \t")


@pytest.mark.parametrize("token", [None, SECRET])
def test_without_a_token_other_names_are_refused_by_every_route(token):
    mcp = pytest.importorskip("surprise_rerank.connectors.mcp", reason="the extra 'mcp' is not installed")
    options = ServerOptions(token=token, hosts=("proxy.example",))
    service = Service(searches=True, options=options, logger=Log().logger())
    app: Any = service_app(service, mcp.mcp_routes(service))
    client = client_of(app, raise_server_exceptions=False)
    routes = [(method, route.path) for route in app.routes for method in sorted(route.methods or {"POST"})]
    routes.append(("GET", "/no/such/path"))
    expected = {"/", "/health", "/info", "/metrics", "/openapi.json", "/v1/search", "/mcp"}
    assert expected <= {path for _, path in routes}
    everywhere = itertools.product((FOREIGN[0], FOREIGN[-1], OWN[0]), routes)
    every_name = itertools.product((*FOREIGN, *OWN), [("GET", "/info"), ("POST", "/mcp")])
    for headers, (method, path) in (*everywhere, *every_name):
        answer = client.request(method, path, headers=headers)
        refused = answer.status_code == 403 and (method == "HEAD" or "no name of this" in answer.text)
        assert refused == (headers in FOREIGN and token is None), (headers, method, path, answer.status_code)


def test_a_filter_of_75_000_conditions_is_refused_while_others_are_answered():
    rows = [{"key": f"metadata.k{i}", "match": {"value": i}} for i in range(75_000)]
    service, reranker = Service(searches=True, logger=Log().logger()), words_reranker()
    service.open(reranker, Pipeline(reranker.encoder, NothingFound()))
    waits: list[float] = []
    with served(service_app(service)) as url, ThreadPoolExecutor(1) as callers:
        waits += [health(url) for _ in range(20)]
        for count, status, said in (
            (75_000, 413, "1048576 bytes"),
            (15_000, 422, "more than 64 conditions"),
        ):
            content = json.dumps({"query": "q", "filter": {"should": rows[:count]}}).encode()
            searches = callers.submit(
                httpx.post, f"{url}/v1/search", content=content, headers=JSON, timeout=20
            )
            while not searches.done():
                waits.append(health(url))
            assert searches.result().status_code == status
            assert said in searches.result().json()["message"]
    quiet, busy = (sorted(times)[len(times) // 2] for times in (waits[:20], waits[20:]))
    assert busy < max(0.2, 10 * quiet)  # a machine that does much else is slow without any filter


def health(url: str) -> float:
    begun = time.perf_counter()
    assert httpx.get(f"{url}/health").status_code == 200
    return time.perf_counter() - begun


class NothingFound:
    def retrieve(self, query: Any, depth: int, fields: Any) -> Any:
        raise AssertionError("nothing is to be retrieved")


# Many at once, slow ones, and such as hang up


def rerank(url: str, texts: int = 3, **more: Any) -> httpx.Response:
    return httpx.post(f"{url}/rerank", json={"query": "q", "texts": ["a"] * texts}, timeout=20, **more)


def in_flight(url: str) -> int:
    lines = (line.split() for line in httpx.get(f"{url}/metrics").text.splitlines())
    return next(int(float(line[1])) for line in lines if line[0] == "surprise_rerank_in_flight")


def test_more_than_the_house_holds_are_sent_away_and_who_is_inside_is_served_to_the_end():
    encoder = SteppingEncoder()
    options = ServerOptions(max_requests=3, workers=1)
    app = create_app(TextReranker(encoder), options=options, logger=Log().logger())
    with ThreadPoolExecutor(3) as callers:
        with served(app) as url:
            inside: list[Future[httpx.Response]] = [callers.submit(rerank, url, 1) for _ in range(3)]
            wait_until(lambda: in_flight(url) == 3)
            busy = rerank(url)
            assert (busy.status_code, busy.headers["Retry-After"]) == (429, "1")
            assert busy.json()["error_type"] == "overloaded"
            assert httpx.get(f"{url}/health").status_code == 200
            assert encoder.steps == 0
            assert "surprise_rerank_queue_rejections_total 1.0" in httpx.get(f"{url}/metrics").text
            threading.Timer(0.5, encoder.may_go_on.release, (3,)).start()  # while the server stops
        assert [future.result().status_code for future in inside] == [200] * 3


def test_work_stops_when_its_caller_hangs_up_or_waited_long_enough():
    encoder = SteppingEncoder()
    log = Log()
    options = ServerOptions(workers=1, timeout=1.0)
    app = create_app(TextReranker(encoder), options=options, logger=log.logger())
    with served(app) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/rerank", json={"query": "q", "texts": ["a"] * 50}, timeout=0.3)
        wait_until(lambda: in_flight(url) == 0)
        encoder.may_go_on.release()  # the step that it was in; after it, it looks up
        begun = time.perf_counter()
        late = rerank(url, 50)
        assert time.perf_counter() - begun >= 1  # and the encoder still waits
        assert late.status_code == 503
        assert late.headers["Retry-After"] == "1"
        assert "no answer within 1 s" in late.json()["error"]
        encoder.may_go_on.release()
        wait_until(lambda: encoder.steps == 2)
        for _ in range(3):
            encoder.may_go_on.release()
        assert rerank(url, 3).status_code == 200
    assert encoder.steps == 5  # one of each that was given up, and three of the last
    assert [line["status"] for line in log.lines if line.get("route") == "/rerank"] == [499, 503, 200]


def test_a_client_says_how_long_it_waits():
    encoder = SteppingEncoder()
    app = create_app(TextReranker(encoder), options=ServerOptions(workers=1))
    with served(app) as url:

        def asked(seconds: str) -> httpx.Response:
            body = {"query": "q", "documents": ["a"]}
            return httpx.post(
                f"{url}/v1/rerank", json=body, headers={"X-Request-Timeout": seconds}, timeout=20
            )

        begun = time.monotonic()
        late = asked("0.3")
        assert (late.status_code, time.monotonic() - begun < 2) == (504, True)
        assert "no answer within the 0.3 s of the request's X-Request-Timeout" in late.json()["message"]
        for _ in range(10):
            encoder.may_go_on.release()
        for wrong in ("soon", "-1", "0", "nan"):
            answer = asked(wrong)
            assert (answer.status_code, "no number of seconds" in answer.text) == (422, True)
        assert asked("1e9").status_code == 200


def test_many_callers_get_what_one_gets():
    questions = [f"dogs bark number {i}" for i in range(40)]
    texts = ["cats sleep", "dogs bark number 7", "wings give lift"]
    alone = words_reranker()
    app = create_app(words_reranker(), options=ServerOptions(workers=4), logger=Log().logger())
    with served(app) as url, ThreadPoolExecutor(16) as callers, httpx.Client(timeout=20) as client:

        def ask(question: str) -> list[tuple[int, float]]:
            body = {"query": question, "texts": texts, "raw_scores": True}
            return [(r["index"], r["score"]) for r in client.post(f"{url}/rerank", json=body).json()]

        answers = list(callers.map(ask, questions))
    assert answers == [[(r.position, r.score) for r in alone.rank(question, texts)] for question in questions]


# What fails, and what is written down


class FailingEncoder(WordEncoder):
    """Fails with what it was given in the message, as libraries do."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.error = error

    def encode(self, texts: Any, kind: Any = "document", on_progress: Any = None) -> Encoded:
        raise self.error(f"cannot encode {texts}")


@pytest.mark.parametrize(
    ("error", "status", "tei"),
    [(ValueError, 500, "backend"), (StoreError, 503, "unhealthy"), (TimeoutError, 500, "backend")],
)
def test_an_error_says_nothing_of_what_was_asked(error, status, tei):
    log = Log()
    client = client_of(create_app(TextReranker(FailingEncoder(error)), logger=log.logger()))
    client.headers["X-Request-Id"] = "my-id"
    answer = client.post("/v1/rerank", json={"query": SECRET, "documents": [SECRET]})
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (status, "my-id")
    tei_answer = client.post("/rerank", json={"query": SECRET, "texts": [SECRET]})
    assert (tei_answer.status_code, tei_answer.json()["error_type"]) == (status, tei)
    assert SECRET not in answer.text + tei_answer.text + log.getvalue()
    assert "Traceback" not in answer.text + log.getvalue()
    failed = next(line for line in log.lines if line["event"] == "failed")
    assert (failed["error"], failed["request_id"]) == (error.__name__, "my-id")
    module = failed["at"].partition(":")[0]
    assert module == ("surprise_rerank.connectors.server._work" if error is TimeoutError else __name__)


def test_every_request_is_a_line_without_its_text():
    log = Log()
    client = limited(ServerOptions(token=SECRET), log)
    client.headers |= {"Authorization": f"Bearer {SECRET}", "X-Request-Id": "abc-1"}
    client.post("/v1/rerank", json={"query": SECRET, "documents": [SECRET, "b"]})
    client.post("/v1/rerank", json={"query": 1, SECRET: SECRET, "documents": [{SECRET: 1}]})
    client.get(f"/{SECRET}?{SECRET}={SECRET}")
    assert SECRET not in log.getvalue()
    assert [line["route"] for line in log.lines] == ["/v1/rerank", "/v1/rerank", "other"]
    first = log.lines[0]
    assert first.pop("ms") > 0
    assert first.pop("timestamp")
    said = {"event": "request", "level": "info", "method": "POST", "route": "/v1/rerank"}
    assert first == {**said, "status": 200, "documents": 2, "request_id": "abc-1"}


@pytest.mark.parametrize("how", ["mounted", "kept", "stripped"])
def test_below_a_prefix_token_limits_and_log_are_as_at_the_root(how):
    log, prefix = Log(), "/models"
    options = ServerOptions(token=SECRET, max_body=1000)
    app: Any = create_app(words_reranker(), options=options, logger=log.logger())
    if how == "mounted":
        outer = FastAPI()
        outer.mount(prefix, app)
        client = TestClient(outer, f"http://here{prefix}")
    else:
        client = TestClient(app, f"http://here{prefix * (how == 'kept')}", root_path=prefix)
    assert client.get("health").status_code == 200
    refused = client.post("rerank", json={"query": "dogs", "texts": []})
    assert (refused.status_code, refused.json()["error_type"]) == (401, "unauthorized")
    client.headers["Authorization"] = f"Bearer {SECRET}"
    assert len(client.post("rerank", json={"query": "dogs", "texts": ["dogs", "cats"]}).json()) == 2
    large = client.post("rerank", json={"query": "dogs", "texts": ["dogs " * 1000]})
    assert (large.status_code, large.json()["error_type"]) == (413, "validation")
    assert 'documents_total{route="/rerank"} 2.0' in client.get("metrics").text
    assert {line["route"] for line in log.lines} == {"/health", "/rerank", "/metrics"}


def test_of_what_libraries_log_only_the_first_line_is_handed_on():
    log, source = Log(), logging.getLogger("asyncio")
    with process.forwarded(log.logger()):
        try:
            raise ValueError(SECRET)
        except ValueError:
            source.exception("it failed\n%s", SECRET)
    (line,) = log.lines
    place = line["at"].partition(":")[0]
    assert (line["said"], line["error"], place) == ("it failed", "ValueError", __name__)
    assert SECRET not in log.getvalue()
