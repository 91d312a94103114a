"""What is asked of a server, and how its answers are read, by REST and gRPC."""

import contextlib
import datetime
import json
import logging
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from helpers.faults import Proxy, Seen, Status
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client import grpc as messages

from surprise_rerank import DataError, IndexOptions, StoreError
from surprise_rerank.connectors.qdrant import Bm25, Location, RetryPolicy
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.connections import connect, existing
from surprise_rerank.connectors.qdrant._engines.nodes import Nodes, key_header, server_version
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._schema import to_terms
from surprise_rerank.connectors.qdrant._storage.server import ServerStorage

KEY = "a-very-secret-key"
QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02)
UUID = "541a8262-a322-5cc3-9a06-75c2d3d02f8e"
DONE = {"operation_id": 0, "status": "completed"}
PARAMS = {"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 1}


def told(params: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """A collection as a server tells of it."""
    return {
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": 1,
        "payload_schema": {},
        "config": {
            "params": params,
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
            "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
            "metadata": metadata,
        },
    }


@pytest.fixture
def server() -> Iterator[Proxy]:
    answers = {"get_collections": {"collections": []}, "create_payload_index": DONE, "upsert": DONE}
    with Proxy(answers=answers) as made:
        yield made


@pytest.fixture
def engine(server: Proxy) -> Iterator[ClientEngine]:
    made = ClientEngine(Nodes.of(Location(url=server.url, api_key=KEY, retries=QUICK)), "x")
    yield made
    made.close()


class GrpcServer(grpc.GenericRpcHandler):
    """Answers each method, by the last part of its path, with a message; the others with UNIMPLEMENTED."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.keys = answers, set[str | None]()

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]

        def handle(request: bytes, context: Any) -> bytes:
            self.keys.add(dict(context.invocation_metadata()).get("api-key"))
            return bytes(self.answers[method].SerializeToString())

        return grpc.unary_unary_rpc_method_handler(handle) if method in self.answers else None


@contextlib.contextmanager
def by_grpc(server: Proxy, answers: dict[str, Any]) -> Iterator[tuple[GrpcServer, Location]]:
    """A server of gRPC, and a location whose REST is another one's."""
    handler = GrpcServer(answers)
    running = grpc.server(ThreadPoolExecutor(4), handlers=[handler])
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield (
        handler,
        Location(url=server.url, grpc_port=port, prefer_grpc=True, api_key=KEY, timeout=1, retries=QUICK),
    )
    running.stop(None)


def spread(node: int, *others: int) -> dict[str, Any]:
    """A collection "x", and the nodes that hold it, as a node tells of them by gRPC."""
    remote = [messages.RemoteShardInfo(shard_id=1, peer_id=other) for other in others]
    return {
        "List": messages.ListCollectionsResponse(collections=[messages.CollectionDescription(name="x")]),
        "CollectionClusterInfo": messages.CollectionClusterInfoResponse(peer_id=node, remote_shards=remote),
    }


@pytest.fixture
def told_of_one(server: Proxy) -> Proxy:
    """A node 7 that holds "x", and has not heard of others."""
    server.answers["get_collections"] = {"collections": [{"name": "x"}]}
    server.answers["collection_cluster_info"] = {
        "peer_id": 7,
        "shard_count": 1,
        "local_shards": [{"shard_id": 0, "points_count": 0, "state": "Active"}],
        "remote_shards": [],
        "shard_transfers": [],
    }
    return server


@pytest.fixture
def engine_by_grpc(told_of_one: Proxy) -> Iterator[ClientEngine]:
    named = messages.NamedVectorsOutput(
        vectors={
            "dense": messages.VectorOutput(dense=messages.DenseVector(data=[1.0, 2.0])),
            "bm25": messages.VectorOutput(sparse=messages.SparseVector(indices=[3, 9], values=[0.5, 0.25])),
            "tokens": messages.VectorOutput(
                multi_dense=messages.MultiDenseVector(vectors=[messages.DenseVector(data=[1.0, 0.0])] * 2)
            ),
        }
    )
    unnamed = messages.VectorOutput(dense=messages.DenseVector(data=[4.0]))
    payload = {"id": messages.Value(string_value="d1"), "year": messages.Value(integer_value=1990)}
    found = [
        messages.ScoredPoint(
            id=messages.PointId(uuid=UUID),
            score=0.75,
            payload=payload,
            vectors=messages.VectorsOutput(vectors=named),
        ),
        messages.ScoredPoint(
            id=messages.PointId(num=7), score=0.5, vectors=messages.VectorsOutput(vector=unnamed)
        ),
        messages.ScoredPoint(id=messages.PointId(num=0), score=0.25),
    ]
    batches = [messages.BatchResult(result=found), messages.BatchResult(result=[])]
    answers = {
        "HealthCheck": messages.HealthCheckReply(version="1.19.2"),
        "QueryBatch": messages.QueryBatchResponse(result=batches),
        **spread(8, 7),  # another node of the same cluster, behind one name
    }
    with by_grpc(told_of_one, answers) as (handler, where):
        engine = ClientEngine(Nodes.of(where), "x")
        yield engine
        assert server_version(engine.nodes) == (1, 19, 2)
        assert handler.keys == {KEY}
        engine.close()


@pytest.mark.parametrize("answers", [spread(8, 9), {"List": messages.ListCollectionsResponse()}])
def test_a_port_of_grpc_that_is_another_servers_is_refused(told_of_one, answers):
    with (
        by_grpc(told_of_one, answers) as (_, where),
        pytest.raises(StoreError, match=r"is another Qdrant than that of http://127.0.0.1:.*give grpc_port="),
    ):
        Nodes.of(where)


def test_the_first_collection_is_made_where_the_url_says(server):
    with by_grpc(server, {"List": messages.ListCollectionsResponse()}) as (_, where):
        engine = ClientEngine(Nodes.of(where), "x")  # two empty servers cannot be told apart

        def listed(seen: Seen) -> dict[str, Any]:
            return {"collections": [{"name": "x"}] if server.came("create_collection") else []}

        server.answers["get_collections"] = listed
        assert engine.create_of({}, {})
        with pytest.raises(StoreError, match="is another Qdrant"):
            engine.count()
        engine.close()


ASKED = models.QueryRequest(query=models.NearestQuery(nearest=[1.0, 2.0]), using="dense", limit=3)


def test_vectors_travel_in_the_shortest_digits_of_float32(server, engine):
    server.answers["query_batch_points"] = [{"points": []}]
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(17, 384)).astype(np.float32)
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    newer = models.FieldCondition(key="day", range=models.DatetimeRange(gte=moment))
    first = models.Prefetch(query=models.NearestQuery(nearest=tokens[0].tolist()), using="dense", limit=9)
    asked = models.QueryRequest(
        query=models.NearestQuery(nearest=tokens.tolist()),
        prefetch=[first],
        using="tokens",
        filter=models.Filter(must=[newer]),
    )
    assert engine.query_batch([asked]) == [[]]
    (came,) = server.searches
    expected = asked.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for search, wanted in ((came, expected), (came["prefetch"][0], expected["prefetch"][0])):
        own, theirs = search["query"].pop("nearest"), wanted["query"].pop("nearest")
        np.testing.assert_array_equal(np.array(own, np.float32), np.array(theirs, np.float32))
    gte = came["filter"]["must"][0]["range"].pop("gte")
    assert datetime.datetime.fromisoformat(gte) == moment
    expected["filter"]["must"][0]["range"].pop("gte")
    assert came == expected
    assert len(server.seen[-1].body) < 100_000 < len(asked.model_dump_json())


def test_a_number_that_no_server_takes_is_sent_for_its_answer(server, engine):
    server.answers["query_batch_points"] = [{"points": []}]
    large = models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=2**70))])
    engine.query_batch([ASKED.model_copy(update={"filter": large})])
    assert server.searches[0]["filter"]["must"][0]["match"] == {"value": 2**70}


POINTS = [
    {
        "id": UUID,
        "version": 1,
        "score": 0.75,
        "payload": {"id": "d1", "year": 1990},
        "vector": {
            "dense": [1.0, 2.0],
            "bm25": {"indices": [3, 9], "values": [0.5, 0.25]},
            "tokens": [[1.0, 0.0]] * 2,
        },
    },
    {"id": 7, "version": 1, "score": 0.5, "vector": [4.0]},
    {"id": 0, "version": 1, "score": 0.25, "payload": None, "vector": None},
]


@pytest.mark.parametrize("by", ["rest", "grpc"])
def test_points_come_back_with_their_vectors_and_payloads(server, request, by):
    server.answers["query_batch_points"] = [{"points": POINTS}, {"points": []}]
    engine = request.getfixturevalue("engine" if by == "rest" else "engine_by_grpc")
    (first, second, third), none = engine.query_batch([ASKED, ASKED])
    assert none == []
    assert [own.id for own in (first, second, third)] == [UUID, "7", "0"]
    assert [own.score for own in (first, second, third)] == [0.75, 0.5, 0.25]
    assert first.payload == {"id": "d1", "year": 1990}
    np.testing.assert_array_equal(first.vectors["dense"], [1.0, 2.0])
    np.testing.assert_array_equal(first.vectors["tokens"], [[1.0, 0.0]] * 2)
    words = to_terms([first, second])
    assert (words.terms.tolist(), words.values.tolist()) == ([3, 9], [0.5, 0.25])
    np.testing.assert_array_equal(second.vectors[""], [4.0])
    assert (third.payload, third.vectors) == ({}, {})
    if by == "rest":
        seen = server.seen[-1]
        assert seen.path == "/collections/x/points/query/batch"
        sent = {"query": {"nearest": [1.0, 2.0]}, "using": "dense", "limit": 3}
        assert json.loads(seen.body) == {"searches": [sent, sent]}
        assert seen.headers["api-key"] == KEY


def test_a_collection_is_made_with_what_its_manifest_says(server, engine):
    server.answers["info"] = json.dumps({"title": "qdrant", "version": "1.18.3"}).encode()
    options = IndexOptions(
        surprise_vector=True,
        bm25=Bm25(),
        quantization="int8",
        on_disk=True,
        payload_indexes={"metadata.year": "integer"},
        tenant="customer",
    )
    manifest = Manifest("model", "f", 16, options, token_dimension=8)
    assert engine.create(manifest, {"shard_number": 2})
    made = [json.loads(seen.body) for seen in server.seen if seen.name == "create_collection"]
    dense = {"size": 16, "distance": "Dot", "on_disk": True}
    assert made == [
        {
            "vectors": {
                "dense": {**dense, "quantization_config": {"scalar": {"type": "int8"}}},
                "surprise": {**dense, "size": 17},
                "tokens": {
                    "size": 8,
                    "distance": "Dot",
                    "hnsw_config": {"m": 0},
                    "on_disk": True,
                    "datatype": "float16",
                    "multivector_config": {"comparator": "max_sim"},
                },
            },
            "sparse_vectors": {"bm25": {"index": {"on_disk": True}}},
            "shard_number": 2,
            "on_disk_payload": True,
            "metadata": json.loads(json.dumps(manifest.to_json())),
        }
    ]
    indexed = [json.loads(seen.body) for seen in server.seen if seen.name == "create_payload_index"]
    known = {own["field_name"]: own["field_schema"] for own in indexed}
    assert known == {
        **options.all_payload_indexes,
        "metadata.customer": {"type": "keyword", "is_tenant": True},
    }
    binary = Manifest("model", "f", 16, IndexOptions(tokens=False, bm25=None, quantization="binary"))
    engine.create(binary, {})
    _, second = [json.loads(seen.body) for seen in server.seen if seen.name == "create_collection"]
    assert second["vectors"] == {
        "dense": {"size": 16, "distance": "Dot", "quantization_config": {"binary": {}}}
    }


def test_a_setting_of_another_kind_is_told_and_nothing_is_sent(server, engine):
    manifest, words = (
        Manifest("model", "f", 16, IndexOptions()),
        r"replication_factor must be .*'two'; .*integer",
    )
    with pytest.raises(DataError, match=words):
        engine.create(manifest, {"replication_factor": "two"})
    assert "create_collection" not in [seen.name for seen in server.seen]


@pytest.mark.parametrize(
    ("version", "dimension", "numbers"),
    [
        ("1.18.3", 128, models.Datatype.FLOAT16),
        ("1.19.0", 127, models.Datatype.FLOAT16),
        ("1.19.0", 128, models.Datatype.TURBO4),
    ],
)
def test_token_vectors_are_in_codes_where_server_and_dimension_allow_it(
    server, engine, version, dimension, numbers
):
    server.answers["info"] = json.dumps({"title": "qdrant", "version": version}).encode()
    assert engine.token_numbers(dimension) == numbers


@pytest.mark.parametrize("version", ["1.12.1", "1.15.4", "1.16.0", "1.18.3-dev", "2.0.1", "unknown", None])
def test_a_server_that_is_too_old_is_told_when_an_index_is_opened(server, version):
    """Later ones are taken, and such that do not say, or hide it."""
    server.answers |= {"info": json.dumps({"title": "qdrant", "version": version}).encode()}
    if version is None:
        server.fault("info", Status(403), times=100)
    server.fault("get_aliases", Status(400, "no index was asked for"), times=100)
    said = r"version 1\.12\.1, older than 1\.15\.4.*upgrade it$" if version == "1.12.1" else "no index was"
    with pytest.raises(StoreError, match=said):
        ServerStorage.open(Location(url=server.url, collection="x"), None, None, {})
    assert server.came("get_aliases") == (version != "1.12.1")


def test_the_places_of_shards_are_read_with_what_the_key_may_see(server, engine):
    server.answers |= {
        "get_collection": told(PARAMS, {}),
        "collection_cluster_info": {
            "peer_id": 7,
            "shard_count": 2,
            "local_shards": [{"shard_id": 1, "points_count": 4, "state": "Active"}],
            "remote_shards": [
                {"shard_id": 0, "peer_id": 8, "state": "Active"},
                {"shard_id": 1, "peer_id": 6, "state": "Dead"},
            ],
            "shard_transfers": [],
        },
        "cluster_status": {
            "status": "enabled",
            "peer_id": 7,
            "peers": {"7": {"uri": "http://a:1"}, "8": {"uri": "http://b:2"}},
            "raft_info": {"term": 1, "commit": 1, "pending_operations": 0, "is_voter": True},
            "consensus_thread_status": {"consensus_thread_status": "stopped"},
            "message_send_failures": {"http://b:2": {"count": 1}},
        },
    }
    assert engine.spread() == PARAMS
    found = engine.placement()
    assert str(found) == "2 shards, 2 copies of each, a write waits for 1"
    assert [str(own) for own in found.shards] == [
        "http://b:2 active, not reached",
        "node 6 dead; http://a:1 active, 4 points",
    ]
    server.fault("cluster_status", Status(503), times=9)
    hidden = engine.placement()
    assert str(hidden.shards[1]) == "node 6 dead; node 7 active, 4 points"
    assert server.came("cluster_status") == 2
    server.fault("collection_cluster_info", Status(403, "no"))
    with pytest.raises(StoreError, match="refuses access"):
        engine.placement()


@pytest.mark.parametrize("kind", [QdrantClient, AsyncQdrantClient])
def test_a_client_that_is_given_is_asked_or_copied(server, kind):
    server.answers |= {"collection_exists": {"exists": True}, "count": {"count": 3}}
    given = kind(server.url, check_compatibility=False)
    connection = connect(given)
    assert connection.place == server.url
    assert connection.owned == (kind is AsyncQdrantClient)  # whose client is for its event loop
    assert existing(connection, "x").count() == 3
    connection.close()
    if kind is QdrantClient:
        assert given.collection_exists("x"), "it stays open"


def test_a_key_without_tls_is_one_line_and_for_other_machines_only(server, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Nodes.of(Location(url=server.url, api_key="secret")).close()
        assert not caplog.records
    with caplog.at_level(logging.WARNING):
        for url in (
            "http://me:pw@far.example:6333",
            "near.example:6333",
            "https://far.example",
            "http://localhost",
            "http://[::1]",
        ):
            for _ in range(2):
                assert key_header(Location(url=url, api_key="secret"), url) == {"api-key": "secret"}
    line, other = caplog.messages
    assert "http://far.example:6333 without TLS" in line
    assert "http://near.example:6333 without TLS" in other
    assert "pw" not in line
    assert "secret" not in line
