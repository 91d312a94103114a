"""The test server answers what local mode answers: the same calls on both give the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_rest import QdrantRest, fresh_collection, plain_server

COLLECTION = "things"
POINTS = 40
Check = Callable[[Callable[[QdrantClient], Any]], None]


@pytest.fixture
def pair() -> Iterator[tuple[QdrantClient, QdrantClient]]:
    with QdrantRest() as rest:
        remote = QdrantClient(url=rest.url, check_compatibility=False)
        local = QdrantClient(":memory:")
        for client in (local, remote):
            fill(client)
        yield local, remote
        assert not rest.api.crashes
        remote.close()
        local.close()


@pytest.fixture
def same(pair: tuple[QdrantClient, QdrantClient]) -> Check:
    def check(ask: Callable[[QdrantClient], Any]) -> None:
        local, remote = (ask(client) for client in pair)
        assert remote == local
        assert remote is not None

    return check


def fill(client: QdrantClient) -> None:
    client.create_collection(
        COLLECTION,
        vectors_config={
            "dense": models.VectorParams(size=8, distance=models.Distance.COSINE),
            "tokens": models.VectorParams(
                size=4,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            ),
        },
        sparse_vectors_config={"words": models.SparseVectorParams()},
        metadata={"model": "m", "dimension": 8},
    )
    rng = np.random.default_rng(0)
    points = [
        models.PointStruct(
            id=n if n % 2 else str(uuid.UUID(int=n)),
            vector={
                "dense": rng.normal(size=8).tolist(),
                "tokens": rng.normal(size=(3, 4)).tolist(),
                "words": models.SparseVector(indices=[n, n + 1, 100], values=rng.random(3).tolist()),
            },
            payload={"n": n, "kind": "ab"[n % 2], "parent": n // 5, "nested": {"x": [n, None, 0.5]}},
        )
        for n in range(POINTS)
    ]
    client.upsert(COLLECTION, points, wait=True)


DENSE = [0.3, -0.2, 0.9, 0.1, 0.0, -0.5, 0.4, 1]
ODD = models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value="b"))])
FEW = models.Filter(
    must=[models.FieldCondition(key="n", range=models.Range(gte=5, lt=20))],
    must_not=[models.HasIdCondition(has_id=[7, 9])],
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": DENSE, "limit": 5},
        {"query": DENSE, "limit": 7, "offset": 3, "query_filter": ODD, "with_payload": ["n"]},
        {"query": DENSE, "score_threshold": 0.2, "with_vectors": True, "limit": 100},
        {"query": DENSE, "query_filter": FEW, "with_vectors": ["dense"], "with_payload": False},
        {"query": 7, "limit": 3},
        {"query": models.RecommendQuery(recommend=models.RecommendInput(positive=[1], negative=[3]))},
        {"query": models.SparseVector(indices=[3, 100], values=[1.0, 0.2]), "using": "words"},
        {"query": [[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]], "using": "tokens", "limit": 4},
        {
            "prefetch": [
                models.Prefetch(query=DENSE, using="dense", limit=20),
                models.Prefetch(
                    query=models.SparseVector(indices=[100], values=[1.0]), using="words", limit=20
                ),
            ],
            "query": models.FusionQuery(fusion=models.Fusion.RRF),
            "using": None,
        },
        {
            "prefetch": models.Prefetch(query=DENSE, using="dense", limit=20),
            "query": models.FormulaQuery(
                formula=models.SumExpression(
                    sum=[
                        "$score",
                        models.MultExpression(mult=[0.01, "n"]),
                        models.DivExpression(div=models.DivParams(left="n", right=100.0)),
                    ]
                ),
                defaults={"n": 0},
            ),
            "using": None,
        },
    ],
)
def test_a_query_gives_the_same_points_and_scores(same: Check, arguments: dict[str, Any]) -> None:
    same(lambda client: client.query_points(COLLECTION, **{"using": "dense", **arguments}))


def test_batches_are_the_same(same: Check) -> None:
    requests = [
        models.QueryRequest(query=DENSE, using="dense", limit=3, with_payload=True),
        models.QueryRequest(query=DENSE, using="dense", filter=ODD, offset=2),
    ]
    same(lambda client: client.query_batch_points(COLLECTION, requests[:1]))
    same(lambda client: [p.id for p in client.query_batch_points(COLLECTION, requests)[1].points])


def test_pages_counts_facets_and_records_are_the_same(same: Check) -> None:
    def pages(client: QdrantClient) -> list[Any]:
        found: list[Any] = []
        offset = None
        while True:
            records, offset = client.scroll(COLLECTION, ODD, limit=6, offset=offset, with_vectors=True)
            found += records
            if offset is None:
                return found

    same(pages)
    same(lambda client: client.scroll(COLLECTION, order_by="n", limit=5))
    same(lambda client: client.count(COLLECTION))
    same(lambda client: client.count(COLLECTION, FEW))
    same(lambda client: client.facet(COLLECTION, "kind"))
    same(lambda client: client.retrieve(COLLECTION, [1, 3, 999], with_payload=["n"], with_vectors=["words"]))


def test_changes_leave_both_the_same(same: Check) -> None:
    three = models.Batch(
        ids=[100, 101, 102],
        vectors={"dense": np.eye(3, 8).tolist()},
        payloads=[{"n": 100}, {"n": 101, "kind": "a"}, {}],
    )
    changes: list[Callable[[QdrantClient], Any]] = [
        lambda c: c.upsert(COLLECTION, three),
        lambda c: c.delete(COLLECTION, [1, 3]),
        lambda c: c.delete(COLLECTION, FEW),
        lambda c: c.set_payload(COLLECTION, {"new": 1}, points=[7, 21]),
        lambda c: c.set_payload(COLLECTION, {"y": 1}, points=ODD, key="nested"),
        lambda c: c.overwrite_payload(COLLECTION, {"only": [1, 2]}, points=[23]),
        lambda c: c.delete_payload(COLLECTION, ["kind"], points=[25]),
        lambda c: c.clear_payload(COLLECTION, [27]),
        lambda c: c.update_vectors(COLLECTION, [models.PointVectors(id=29, vector={"dense": DENSE})]),
        lambda c: c.delete_vectors(COLLECTION, ["tokens"], [31]),
        lambda c: c.batch_update_points(
            COLLECTION,
            [
                models.SetPayloadOperation(set_payload=models.SetPayload(payload={"b": 1}, points=[33])),
                models.DeleteOperation(delete=models.PointIdsList(points=[35])),
            ],
        ),
    ]
    for change in changes:
        same(change)
        same(lambda client: client.scroll(COLLECTION, limit=1000, with_vectors=True))


def test_collections_and_aliases_are_the_same(same: Check) -> None:
    def alias(name: str, collection: str) -> models.CreateAliasOperation:
        return models.CreateAliasOperation(
            create_alias=models.CreateAlias(alias_name=name, collection_name=collection)
        )

    same(lambda c: c.collection_exists("other"))
    same(lambda c: c.create_collection("other", models.VectorParams(size=2, distance=models.Distance.DOT)))
    same(lambda c: c.update_collection_aliases([alias("a", COLLECTION), alias("b", "other")]))
    same(lambda c: c.get_collections())
    same(lambda c: c.get_aliases())
    same(lambda c: c.get_collection_aliases("other"))
    same(lambda c: c.count("a"))
    same(lambda c: c.update_collection(COLLECTION, metadata={"generation": 2}))
    same(lambda c: c.get_collection(COLLECTION))
    same(lambda c: c.delete_collection("other"))
    same(lambda c: c.delete_collection("other"))
    same(lambda c: c.get_aliases())


def test_payload_indexes_are_remembered() -> None:
    rest = plain_server()
    client = QdrantClient(url=rest.url)  # checks the versions, too
    name = fresh_collection()
    client.create_collection(name, models.VectorParams(size=2, distance=models.Distance.DOT))
    client.create_payload_index(name, "id", models.PayloadSchemaType.KEYWORD)
    client.create_payload_index(name, "when", models.IntegerIndexParams(type="integer", range=True))
    schema = client.get_collection(name).payload_schema
    assert {key: value.data_type for key, value in schema.items()} == {"id": "keyword", "when": "integer"}
    client.delete_payload_index(name, "id")
    assert list(client.get_collection(name).payload_schema) == ["when"]
    client.delete_collection(name)
    client.close()


def test_errors_are_told_as_the_server_tells_them() -> None:
    with QdrantRest(api_key="k", limit=5000) as rest:
        with pytest.warns(UserWarning, match="insecure"):
            client = QdrantClient(url=rest.url, api_key="k", check_compatibility=False)

        def refusal(ask: Callable[[], Any]) -> tuple[int | None, str]:
            with pytest.raises(UnexpectedResponse) as caught:
                ask()
            return caught.value.status_code, caught.value.structured()["status"]["error"]

        assert refusal(lambda: client.count("x")) == (404, "Not found: Collection `x` doesn't exist!")
        client.create_collection("x", models.VectorParams(size=2, distance=models.Distance.DOT))
        code, reason = refusal(lambda: client.set_payload("x", {"a": 1}, points=[5]))
        assert (code, reason) == (404, "Not found: No point with id 5 found")
        code, reason = refusal(
            lambda: client.create_collection("x", models.VectorParams(size=2, distance=models.Distance.DOT))
        )
        assert (code, reason) == (409, "Wrong input: Collection `x` already exists!")
        wide = [models.PointStruct(id=1, vector=[0.0] * 3000)]
        code, reason = refusal(lambda: client.upsert("x", wide))
        assert code == 400
        assert "is larger than allowed (limit: 5000 bytes)." in reason
        assert httpx.put(f"{rest.url}/collections/x/points", content=b"{}").status_code == 401
        headers = {"api-key": "k"}
        assert (
            httpx.put(f"{rest.url}/collections/x/points", content=b"{}", headers=headers).status_code == 400
        )
        assert httpx.get(f"{rest.url}/nowhere", headers=headers).status_code == 404
        client.close()


def test_what_is_stored_outlives_a_restart(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with QdrantRest(folder=folder) as rest:
            url = rest.url
            client = QdrantClient(url=url, check_compatibility=False)
            fill(client)
            rest.stop()
            with pytest.raises(httpx.ConnectError):
                httpx.get(url)
            rest.start()
            assert rest.url == url
            assert client.count(COLLECTION).count == POINTS
            client.close()
