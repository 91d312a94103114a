"""The server's application below a prefix: everything that goes by a path does so as at the root."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from serving import Log, words_reranker

from surprise_rerank.connectors.server import ServerOptions, create_app
from surprise_rerank.connectors.server.answers import route_path

TOKEN = "a-long-random-one"
PREFIXES = ("/r", "/v1", "/models/rank")  # of which the first two begin routes
PLACES = [(prefix, how) for prefix in PREFIXES for how in ("mounted", "kept", "stripped")]
PLACES.remove(("/v1", "stripped"))  # the framework itself takes /v1/rerank for /rerank below /v1 then


def below(prefix: str, how: str, log: Log | None = None) -> TestClient:
    """A client of an application that is mounted, or told its prefix by a proxy that keeps or strips it."""
    options = ServerOptions(token=TOKEN, max_body=1000)
    app = create_app(words_reranker(), options=options, logger=(log or Log()).logger())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if how == "mounted":
        outer = FastAPI()
        outer.mount(prefix, app)
        return TestClient(outer, f"http://here{prefix}", headers=headers)
    base = f"http://here{prefix}" if how == "kept" else "http://here"
    return TestClient(app, base, root_path=prefix, headers=headers)


@pytest.mark.parametrize(("prefix", "how"), PLACES)
def test_below_a_prefix_everything_is_as_at_the_root(prefix: str, how: str) -> None:
    log = Log()
    client = below(prefix, how, log)
    texts = ["dogs bark", "cats"]
    assert len(client.post("rerank", json={"query": "dogs", "texts": texts}).json()) == 2
    for path in ("v1/rerank", "v2/rerank"):
        answer = client.post(path, json={"query": "dogs", "documents": texts})
        assert answer.status_code == 200
        assert answer.json()["meta"]["api_version"] == {"version": path[1]}
    large = client.post("rerank", json={"query": "dogs", "texts": ["dogs " * 1000]})
    assert (large.status_code, large.json()["error_type"]) == (413, "validation")
    wrong = client.post("rerank", json={"query": "dogs"})
    assert (wrong.status_code, wrong.json()["error_type"]) == (422, "validation")
    assert client.post("rerank", content="{}").status_code == 415
    metrics = client.get("metrics").text
    assert 'requests_total{route="/v2/rerank",status="200"} 1.0' in metrics
    assert 'documents_total{route="/rerank"} 2.0' in metrics
    assert {line["route"] for line in log.lines} == {"/rerank", "/v1/rerank", "/v2/rerank", "/metrics"}
    client.headers.pop("Authorization")
    assert client.get("health").status_code == 200
    assert client.get("ready").status_code == 200
    refused = client.post("rerank", json={"query": "dogs", "texts": texts})
    assert (refused.status_code, refused.json()["error_type"]) == (401, "unauthorized")
    assert client.get("info").status_code == 401


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/r/rerank", "/r", "/rerank"),
        ("/rerank", "/r", "/rerank"),
        ("/r", "/r", ""),
        ("/rerank", "", "/rerank"),
        ("/r/r/rerank", "/r", "/r/rerank"),
        ("/r/rerank", "/r/", "/r/rerank"),
    ],
)
def test_the_gate_reads_a_path_as_the_routes_do(path: str, root: str, expected: str) -> None:
    from starlette._utils import get_route_path  # private: this test is what binds ours to it

    scope = {"path": path, "root_path": root}
    assert route_path(scope) == get_route_path(scope) == expected
