"""Questions by gRPC: what comes back is read as over REST, and what goes wrong is told without the key.

The suites over engines run by gRPC, too, where there is a server; see `open_index` in conftest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from qdrant_client import grpc as messages
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes, server_version
from surprise_rerank.connectors.qdrant.location import Location, RetryPolicy
from surprise_rerank.connectors.qdrant.schema import to_terms

KEY = "a-very-secret-key"
QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02)
Answer = Callable[[Any], Any]


class Server(grpc.GenericRpcHandler):
    """Answers each method, by the last part of its path, with a message; the others with UNIMPLEMENTED."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "List": lambda context: messages.ListCollectionsResponse(),
            "HealthCheck": lambda context: messages.HealthCheckReply(version="1.19.2"),
        }
        self.keys: set[str | None] = set()
        self.calls: list[str] = []

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]

        def handle(request: bytes, context: Any) -> bytes:
            self.calls.append(method)
            self.keys.add(dict(context.invocation_metadata()).get("api-key"))
            return bytes(self.answers[method](context).SerializeToString())

        return grpc.unary_unary_rpc_method_handler(handle) if method in self.answers else None


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def engine(server: Server) -> Iterator[ClientEngine]:
    running = grpc.server(ThreadPoolExecutor(4), handlers=[server])
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    where = Location(
        url="http://127.0.0.1", grpc_port=port, prefer_grpc=True, api_key=KEY, timeout=1, retries=QUICK
    )
    engine = ClientEngine(Nodes.of(where), "x")
    yield engine
    engine.close()
    running.stop(None)


def point(own: messages.PointId, score: float, **more: Any) -> messages.ScoredPoint:
    return messages.ScoredPoint(id=own, score=score, **more)


def test_points_come_back_with_their_vectors_and_payloads(server: Server, engine: ClientEngine) -> None:
    named = messages.NamedVectorsOutput(
        vectors={
            "dense": messages.VectorOutput(dense=messages.DenseVector(data=[1.0, 2.0])),
            "bm25": messages.VectorOutput(sparse=messages.SparseVector(indices=[3, 9], values=[0.5, 0.25])),
            "tokens": messages.VectorOutput(
                multi_dense=messages.MultiDenseVector(vectors=[messages.DenseVector(data=[1.0, 0.0])] * 2)
            ),
        }
    )
    payload = {"id": messages.Value(string_value="d1"), "year": messages.Value(integer_value=1990)}
    uuid = "541a8262-a322-5cc3-9a06-75c2d3d02f8e"
    found = [
        point(
            messages.PointId(uuid=uuid), 0.75, payload=payload, vectors=messages.VectorsOutput(vectors=named)
        ),
        point(
            messages.PointId(num=7),
            0.5,
            vectors=messages.VectorsOutput(
                vector=messages.VectorOutput(dense=messages.DenseVector(data=[4.0]))
            ),
        ),
        point(messages.PointId(num=0), 0.25),
    ]
    batches = [messages.BatchResult(result=found), messages.BatchResult(result=[])]
    server.answers["QueryBatch"] = lambda context: messages.QueryBatchResponse(result=batches)
    asked = models.QueryRequest(query=models.NearestQuery(nearest=[1.0, 2.0]), using="dense", limit=3)
    (first, second, third), none = engine.query_batch([asked, asked])
    assert none == []
    assert [own.id for own in (first, second, third)] == [uuid, "7", "0"]
    assert [own.score for own in (first, second, third)] == [0.75, 0.5, 0.25]
    assert first.payload == {"id": "d1", "year": 1990}
    np.testing.assert_array_equal(first.vectors["dense"], [1.0, 2.0])
    np.testing.assert_array_equal(first.vectors["tokens"], [[1.0, 0.0]] * 2)
    words = to_terms([first, second])
    assert (words.terms.tolist(), words.values.tolist()) == ([3, 9], [0.5, 0.25])
    np.testing.assert_array_equal(second.vectors[""], [4.0])
    assert (third.payload, third.vectors) == ({}, {})
    assert server.keys == {KEY}
    assert server_version(engine.nodes) == (1, 19, 2)
