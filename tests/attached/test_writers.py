"""An index and what is added beside a foreign collection are written alike, whatever the server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from words import WordEncoder

from surprise_rerank import Collection, Document, DocumentIndex
from surprise_rerank.connectors.qdrant.engines.nodes import Node, Nodes

ENCODER = WordEncoder()
DOCUMENTS = [Document(str(i), f"cats purr on mats number{i} of {i % 7}") for i in range(150)]
SMALL = 20  # points of a request


class Faulty(QdrantClient):
    """Qdrant in memory: `fault(request, points)` may raise before a request is done."""

    fault: Callable[[str, int], None] | None = None

    def upsert(self, collection_name: str, points: Any, **more: Any) -> Any:
        if self.fault is not None:
            self.fault("upsert", len(points))
        return super().upsert(collection_name, points, **more)

    def retrieve(self, *arguments: Any, **more: Any) -> Any:
        if self.fault is not None:
            self.fault("retrieve", 0)
        return super().retrieve(*arguments, **more)


def refusal(status: int) -> UnexpectedResponse:
    return UnexpectedResponse(status, "no", b'{"status": {"error": "no"}}', httpx.Headers())


def too_large(request: str, points: int) -> None:
    if points > SMALL:
        raise refusal(413)


def away(name: str) -> Callable[[str, int], None]:
    """The second request of a kind meets a server that restarts, and is sent again until it is back."""
    calls = iter(range(1, 1000))

    def fault(request: str, points: int) -> None:
        if request == name and 2 <= next(calls) <= 4:
            raise refusal(503)

    return fault


@pytest.fixture(params=["sync", "enrich"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`written(fault)`: all documents are written while requests meet it; gives how many are stored."""
    client = Faulty(":memory:")

    def sync(fault: Callable[[str, int], None]) -> int:
        monkeypatch.setattr(
            Nodes,
            "of",
            classmethod(
                lambda kind, location: kind([Node(client)], "local", location.server, location.retries)
            ),
        )
        with DocumentIndex.open(None, ENCODER, url="http://localhost:6333") as index:
            client.fault = fault
            assert index.sync(DOCUMENTS, background=False).added == len(DOCUMENTS)
            client.fault = None
            assert index.sync(DOCUMENTS, background=False).unchanged == len(DOCUMENTS)
            return len(index)

    def enrich(fault: Callable[[str, int], None]) -> int:
        size = models.VectorParams(size=ENCODER.dimension, distance=models.Distance.COSINE)
        client.create_collection("papers", vectors_config=size)
        vectors = ENCODER.encode([document.text for document in DOCUMENTS]).dense
        points = [
            models.PointStruct(id=i, vector=vectors[i].tolist(), payload={"text": document.text})
            for i, document in enumerate(DOCUMENTS)
        ]
        client.upsert("papers", points)
        collection = Collection.attach(client, "papers", embed=ENCODER)
        client.fault = fault
        assert collection.enrich().enriched == len(DOCUMENTS)
        client.fault = None
        assert collection.enrich().unchanged == len(DOCUMENTS)
        return client.count("papers.surprise").count

    yield {"sync": sync, "enrich": enrich}[request.param]
    client.close()


@pytest.mark.parametrize("name", ["too large", "upsert away", "retrieve away"])
def test_what_a_server_refuses_for_a_while_or_for_its_size_is_written_all_the_same(
    written: Any, name: str
) -> None:
    faults = {"too large": too_large, "upsert away": away("upsert"), "retrieve away": away("retrieve")}
    assert written(faults[name]) == len(DOCUMENTS)
