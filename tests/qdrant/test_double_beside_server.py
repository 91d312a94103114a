"""The servers of these tests say what a real one says: the same requests, right and wrong, sent to both."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import httpx
import pytest
from qdrant_client import QdrantClient
from qdrant_client import grpc as messages
from qdrant_grpc import QdrantGrpc
from qdrant_rest import QdrantRest
from real_server import server_url

COLLECTION = f"test-beside-{uuid.uuid4().hex[:8]}"
ALIAS = f"{COLLECTION}-alias"
HERE = f"/collections/{COLLECTION}"
MADE = {"vectors": {"a": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {"s": {}}}
KEY = os.environ.get("QDRANT_API_KEY")
SPEAKS = "1.18."
HEADERS = {"api-key": KEY} if KEY else {}


def search(vector: Any, using: str | None = "a", **more: Any) -> tuple[str, str, dict[str, Any]]:
    return "POST", f"{HERE}/points/query", {"query": vector, "using": using, **more}


def upsert(point: int | str, vector: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return "PUT", f"{HERE}/points?wait=true", {"points": [{"id": point, "vector": dict(vector)}]}


def alias(of: str, name: str) -> tuple[str, str, dict[str, Any]]:
    action = {"create_alias": {"collection_name": of, "alias_name": name}}
    return "POST", "/collections/aliases", {"actions": [action]}


# In the order in which they are sent. Of what a body lacks pydantic and serde tell in other words: the status
# and the first words are compared, where it says so.
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "a search before": search([1, 2]),
    "a count before": ("POST", f"{HERE}/points/count", {}),
    "an upsert before": upsert(1, {"a": [1, 2]}),
    "an index before": ("PUT", f"{HERE}/index", {"field_name": "x", "field_schema": "keyword"}),
    "metadata before": ("PATCH", HERE, {"metadata": {"a": 1}}),
    "made": ("PUT", HERE, MADE),
    "made again": ("PUT", HERE, MADE),
    "made wrongly (in other words)": ("PUT", f"{HERE}-x", {"vectors": 5}),
    "made of a wrong name": ("PUT", "/collections/a%2Fb", MADE),
    "an upsert": upsert(1, {"a": [1, 2]}),
    "a longer vector": upsert(3, {"a": [1, 2, 3]}),
    "an unknown vector": upsert(3, {"zz": [1, 2]}),
    "no points": ("PUT", f"{HERE}/points?wait=true", {"points": []}),
    "no body (in other words)": ("PUT", f"{HERE}/points?wait=true", {}),
    "no JSON (in other words)": ("PUT", f"{HERE}/points?wait=true", "{bad"),
    "a search": search([1, 2]),
    "a search by a longer vector": search([1, 2, 3]),
    "a search of an unknown vector": search([1, 2], "zz"),
    "a search of no vector": search([1, 2], None),
    "a search for none (in other words)": search([1, 2], limit=0),
    "a search by twice one word (in other words)": search({"indices": [1, 1], "values": [1, 2]}, "s"),
    "a formula without a value": (
        "POST",
        f"{HERE}/points/query",
        {"query": {"formula": {"sum": ["$score", "x"]}}, "prefetch": {"query": [1, 2], "using": "a"}},
    ),
    "scrolling by none (in other words)": ("POST", f"{HERE}/points/scroll", {"limit": 0}),
    "a payload of a missing point": (
        "POST",
        f"{HERE}/points/payload?wait=true",
        {"payload": {"a": 1}, "points": [99]},
    ),
    "vectors of a missing point": (
        "PUT",
        f"{HERE}/points/vectors?wait=true",
        {"points": [{"id": 99, "vector": {"a": [1, 2]}}]},
    ),
    "another vector of a name": ("PUT", f"{HERE}/vectors/a", {"dense": {"size": 3, "distance": "Dot"}}),
    "an alias": alias(COLLECTION, ALIAS),
    "an alias of nothing": alias(f"{COLLECTION}-none", f"{ALIAS}-2"),
    "an alias of a collection's name": alias(COLLECTION, COLLECTION),
    "a collection of an alias's name": ("PUT", f"/collections/{ALIAS}", MADE),
    "nowhere": ("GET", "/nowhere", None),
    "deleted": ("DELETE", HERE, None),
    "deleted again": ("DELETE", HERE, None),
    "ready": ("GET", "/readyz", None),
}


def speaking() -> str:
    """The server's address, where it is of the version whose words the double has."""
    url = server_url()
    version = httpx.get(url, headers=HEADERS).json()["version"]
    if not version.startswith(SPEAKS):
        pytest.skip(f"the server is {version}, the double has the words of {SPEAKS}x")
    return url


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, tuple[httpx.Response, httpx.Response]]]:
    """Name of a request -> the real server's answer, and the double's."""
    url = speaking()
    # Of the codes that a client may accept the double knows one.
    client = httpx.Client(headers={"Accept-Encoding": "gzip", **HEADERS}, timeout=30)
    with client, QdrantRest() as rest:

        def send(base: str, method: str, path: str, body: Any) -> httpx.Response:
            content = body if body is None or isinstance(body, str) else json.dumps(body)
            return client.request(
                method, base + path, content=content, headers={"Content-Type": "application/json"}
            )

        try:
            yield {name: (send(url, *sent), send(rest.url, *sent)) for name, sent in REQUESTS.items()}
        finally:
            client.delete(url + HERE)


@pytest.mark.server
@pytest.mark.parametrize("name", REQUESTS)
def test_rest_answers_as_the_real_server(
    answers: dict[str, tuple[httpx.Response, httpx.Response]], name: str
) -> None:
    real, double = answers[name]
    assert double.status_code == real.status_code
    assert double.headers.get("Content-Encoding") == real.headers.get("Content-Encoding")
    if not real.content or real.text[0] != "{":
        assert double.text == real.text
        return
    theirs, ours = real.json(), double.json()
    assert ours.keys() == theirs.keys() - {"usage"}
    if isinstance(theirs["status"], str):
        assert ours["status"] == theirs["status"]
    elif "(in other words)" in name:
        assert ours["status"]["error"].partition(": ")[0] == theirs["status"]["error"].partition(": ")[0]
    else:
        assert ours["status"] == theirs["status"]


@pytest.mark.server
@pytest.mark.parametrize("accepted", ["gzip, deflate", "identity"])
def test_answers_are_compressed_for_whoever_accepts_it(accepted: str) -> None:
    sent = {"Accept-Encoding": accepted, **HEADERS}
    with QdrantRest() as rest:
        real, double = (httpx.get(f"{url}/collections", headers=sent) for url in (server_url(), rest.url))
    assert double.headers.get("Content-Encoding") == real.headers.get("Content-Encoding")
    assert ("Content-Encoding" in real.headers) == (accepted != "identity")


def by_grpc(client: QdrantClient) -> dict[str, Callable[[], object]]:
    """What is asked of both, in the order in which it is sent."""
    at = COLLECTION + "-grpc"
    points, collections = client.grpc_points, client.grpc_collections
    size = messages.VectorParamsMap(map={"a": messages.VectorParams(size=2, distance=messages.Distance.Dot)})

    def make(name: str) -> object:
        config = messages.VectorsConfig(params_map=size)
        return collections.Create(messages.CreateCollection(collection_name=name, vectors_config=config))

    def store(*vector: float, using: str = "a") -> object:
        dense = messages.Vector(dense=messages.DenseVector(data=vector))
        named = messages.Vectors(vectors=messages.NamedVectors(vectors={using: dense}))
        made = [messages.PointStruct(id=messages.PointId(num=1), vectors=named)] if vector else []
        return points.Upsert(messages.UpsertPoints(collection_name=at, wait=True, points=made))

    def find(*vector: float, using: str = "a", **more: int) -> object:
        nearest = messages.VectorInput(dense=messages.DenseVector(data=vector))
        query = messages.Query(nearest=nearest)
        return points.Query(messages.QueryPoints(collection_name=at, query=query, using=using, **more))

    def call(of: str, name: str) -> object:
        own = messages.CreateAlias(collection_name=of, alias_name=name)
        return collections.UpdateAliases(
            messages.ChangeAliases(actions=[messages.AliasOperations(create_alias=own)])
        )

    def drop() -> object:
        return collections.Delete(messages.DeleteCollection(collection_name=at))

    return {
        "a search before": lambda: find(1, 2),
        "an upsert before": lambda: store(1, 2),
        "made": lambda: make(at),
        "made again": lambda: make(at),
        "made of a wrong name": lambda: make("a/b"),
        "an upsert": lambda: store(1, 2),
        "a longer vector": lambda: store(1, 2, 3),
        "an unknown vector": lambda: store(1, 2, using="zz"),
        "no points": lambda: store(),
        "a search": lambda: find(1, 2),
        "a search by a longer vector": lambda: find(1, 2, 3),
        "a search of an unknown vector": lambda: find(1, 2, using="zz"),
        "a search for none": lambda: find(1, 2, limit=0),
        "scrolling by none": lambda: points.Scroll(messages.ScrollPoints(collection_name=at, limit=0)),
        "an alias": lambda: call(at, f"{at}-alias"),
        "an alias of nothing": lambda: call(f"{at}-none", f"{at}-b"),
        "a collection of an alias's name": lambda: make(f"{at}-alias"),
        "deleted": drop,
        "deleted again": drop,
    }


@pytest.mark.server
def test_grpc_answers_as_the_real_server() -> None:
    def told(ask: Callable[[], object]) -> tuple[str, str]:
        try:
            ask()
        except grpc.RpcError as error:
            return error.code().name, error.details()
        return "OK", ""

    url = httpx.URL(speaking())
    host, port = url.host, int(os.environ.get("QDRANT_GRPC_PORT", (url.port or 6333) + 1))
    with QdrantGrpc() as server:
        double = QdrantClient(
            host="127.0.0.1", grpc_port=server.port, prefer_grpc=True, check_compatibility=False
        )
        real = QdrantClient(
            host=host, grpc_port=port, prefer_grpc=True, api_key=KEY, https=False, check_compatibility=False
        )

        ours = {name: told(ask) for name, ask in by_grpc(double).items()}
        theirs = {name: told(ask) for name, ask in by_grpc(real).items()}
        real.close()
        double.close()
    assert ours == theirs
