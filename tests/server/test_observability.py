"""What operators see: metrics of every stage, whether Qdrant answers, and whose request a line is about."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from fastapi.testclient import TestClient
from helpers.faults import Status
from helpers.serving import Log, client_of, service_of, wait_until
from helpers.words import WordEncoder

from surprise_rerank import Document, DocumentIndex
from surprise_rerank.connectors.server import _process as process
from surprise_rerank.connectors.server import service_app
from surprise_rerank.encoders.base import Encoded
from surprise_rerank.thresholds.varied_questions import varied_questions

DOCUMENTS = [Document(f"d{i}", f"dogs bark at number {i}") for i in range(20)]


@pytest.fixture
def index(tmp_path: Any) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as opened:
        opened.sync(DOCUMENTS, background=False)
        opened.measure_background("auto", varied_questions(20))
        yield opened


def metrics(client: TestClient) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in client.get("/metrics").text.splitlines() if line[:1] != "#")
    return {name.removeprefix("surprise_rerank_"): float(value) for name, _, value in lines}


def test_metrics_tell_the_stages_the_pool_the_model_and_stale_backgrounds(index):
    client = client_of(service_app(service_of(index, "auto")))
    client.post("/v1/search", json={"query": "dogs", "depth": 7})
    client.post("/v1/rerank", json={"query": "dogs", "documents": ["dogs", "cats"]})
    client.post("/score", json={"text_1": "dogs", "text_2": ["dogs", "cats", "birds"]})
    now = metrics(client)
    for route in ("/v1/search", "/v1/rerank", "/score"):
        for stage in ("encoding", "retrieval", "re-ranking"):
            assert now[f'stage_seconds_count{{route="{route}",stage="{stage}"}}'] == 1
            assert 0 <= now[f'stage_seconds_sum{{route="{route}",stage="{stage}"}}'] < 10
    sizes = {r: now[f'pool_size_sum{{route="{r}"}}'] for r in ("/v1/search", "/v1/rerank", "/score")}
    assert (sizes["/v1/rerank"], sizes["/score"]) == (2, 3)
    assert 10 <= sizes["/v1/search"] <= 20  # of both parts of a hybrid pool
    (model,) = (name for name in now if name.startswith("model_info"))
    assert 'system="auto"' in model
    stale, changed = (f'background_{name}{{system="auto"}}' for name in ("stale", "changed_documents"))
    assert (now[stale], now[changed]) == (0, 0)
    index.sync([Document(f"n{i}", f"cats purr at number {i}") for i in range(30)], background=False)
    later = metrics(client)
    assert (later[stale], later[changed]) == (1, 30)


def test_a_server_is_ready_while_its_qdrant_answers(qdrant, monkeypatch):
    monkeypatch.setattr("surprise_rerank.connectors.server._service._FRESH", 0.0)
    monkeypatch.setattr("surprise_rerank.connectors.server._service._SOON", 0.3)
    url = getattr(qdrant, "url", "http://here:6333")
    with DocumentIndex.open(f"{url}/{qdrant.prefix}-ready", WordEncoder()) as index:
        index.sync(DOCUMENTS, background=False)
        client = client_of(service_app(service_of(index, "auto")))
        assert client.get("/ready").json() == {"status": "ready"}
        qdrant.fault("collection_exists", Status(503), times=10_000)
        begun = time.monotonic()
        for _ in range(5):
            answer = client.get("/ready")
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert "Qdrant server of the index does not answer" in answer.json()["message"]
        assert time.monotonic() - begun < 5
        assert client.get("/health").status_code == 200
        qdrant.heal()
        wait_until(lambda: client.get("/ready").status_code == 200)


class Complaining(WordEncoder):
    """Warns of every question, as libraries do."""

    def encode(self, texts: Any, kind: Any = "document", on_progress: Any = None) -> Encoded:
        logging.getLogger("surprise_rerank").warning("slow today")
        return super().encode(texts, kind, on_progress)


def test_a_line_of_a_library_names_the_request_that_it_is_about(index):
    log = Log()
    index.use_encoder(Complaining())
    client = client_of(service_app(service_of(index, "auto", log)))
    with process.forwarded(log.logger()):
        client.post("/v1/search", json={"query": "dogs"}, headers={"X-Request-Id": "abc-1"})
    (line,) = (line for line in log.lines if line.get("said") == "slow today")
    assert line["request_id"] == "abc-1"
