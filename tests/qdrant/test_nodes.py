"""Several addresses of one Qdrant: another node takes over, the first is used again, and waits are told."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.faults import Broken, Proxy, Status
from qdrant_client import QdrantClient

from surprise_rerank import DataError, StoreError
from surprise_rerank.connectors.qdrant import Location, RetryPolicy
from surprise_rerank.connectors.qdrant._engines import retries
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.nodes import Nodes
from surprise_rerank.connectors.qdrant._location import shown_url

AWAY = (
    "Service internal error: Tonic status error: code: 'The service is currently unavailable', message: "
    '"Failed to connect to http://127.0.0.1:6335/, error: transport error"'
)
# What a node of Qdrant 1.18.3 says of others that are away; REST's status is 500 for all of them.
LOST = {
    "read": f"1 of 1 read operations failed:\n  {AWAY}",
    "write": f"2 out of 6 shards failed to apply operation. First error captured: {AWAY}",
    "every shard": "Tonic status error: code: 'The service is currently unavailable', message: "
    '"tcp connect error", source: tonic::transport::Error(Transport, ConnectError(ConnectError("tcp connect '
    'error", 127.0.0.1:6335, Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })))',
    "replica": "Failed to apply operation to at least one `Active` replica. Consistency of this update "
    f"is not guaranteed. Please retry. Failed peer: 7, error: {AWAY}",
    "few replicas": "The replica set for shard 2 on peer 7 does not have enough active replicas",
    "consensus": "Waiting for consensus operation commit failed. Timeout set at: 10 seconds",
}


@pytest.fixture
def pair() -> Iterator[tuple[Proxy, Proxy]]:
    """Two nodes that hold the metadata of one collection."""
    metadata: dict[str, Any] = {}
    config = {
        "params": {},
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
        "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
        "metadata": metadata,
    }
    info = {"status": "green", "optimizer_status": "ok", "segments_count": 1, "payload_schema": {}}
    answers = {
        "get_collections": {"collections": []},
        "get_collection": lambda seen: {**info, "config": config},
        "update_collection": lambda seen: bool(metadata.update(json.loads(seen.body)["metadata"])) or True,
    }
    with Proxy(answers=answers) as first, Proxy(answers=answers) as second:
        yield first, second


@pytest.fixture
def nodes(pair: tuple[Proxy, Proxy]) -> Iterator[Nodes]:
    quick = RetryPolicy(first_wait=0.01, longest_wait=0.05, time_limit=8, search_limit=2)
    found = Nodes.of(Location(url=[own.url for own in pair], retries=quick))
    for own in pair:
        own.heal()
    yield found
    found.close()


def ask(nodes: Nodes, *, patient: bool = False) -> int:
    found = nodes.call(QdrantClient.get_collections, nodes.place, reads=True, patient=patient)
    return len(found.collections)


def test_what_a_collection_remembers_is_seen_by_every_node_before_it_counts_as_saved(pair, nodes):
    """Qdrant answers when one node has it; a pass of statistics once read the old ensemble from the next."""
    engine = ClientEngine(nodes, "kept")
    engine.set_metadata({"latest": 1})
    old = {**pair[1].answers["get_collection"](None)}
    old["config"] = {**old["config"], "metadata": {"latest": 1}}
    pair[1].heal()
    pair[1].fault("get_collection", Status(200, page=json.dumps({"result": old}).encode()), times=5)
    begun = time.monotonic()
    engine.set_metadata({"latest": 2, "of": {"parts": [1, None, 0.5]}})
    assert pair[1].came("get_collection") == 6
    assert engine.metadata()["latest"] == 2
    pair[1].stop()
    engine.set_metadata({"latest": 3})
    assert time.monotonic() - begun < 8


def test_the_next_node_takes_over_in_the_same_question_and_the_first_is_used_again(pair, nodes):
    first, second = pair
    ask(nodes)
    assert (first.came("get_collections"), second.came("get_collections")) == (1, 0)
    first.stop()
    begun = time.monotonic()
    for _ in range(3):
        ask(nodes)
    assert time.monotonic() - begun < 1.5
    assert second.came("get_collections") == 3
    first.start()
    nodes.nodes[0].away_until = 0.0  # as some seconds later
    ask(nodes)
    assert (first.came("get_collections"), second.came("get_collections")) == (2, 3)


def test_a_node_that_keeps_still_is_left(pair, nodes):
    first, second = pair
    first.fault("get_collections", Broken.SILENT, times=9)
    begun = time.monotonic()
    ask(nodes)
    assert time.monotonic() - begun < 6
    assert second.came("get_collections") == 1
    begun = time.monotonic()
    ask(nodes)
    assert time.monotonic() - begun < 1
    first.stop()  # lets go of the thread that keeps still


@pytest.mark.parametrize("fault", [Status(500, reason) for reason in LOST.values()], ids=list(LOST))
def test_a_lost_shard_is_asked_for_elsewhere_and_again(pair, nodes, fault):
    first, second = pair
    first.fault("get_collections", fault, times=2)
    second.fault("get_collections", fault, times=1)
    ask(nodes, patient=True)  # a busy machine takes longer than a question may
    assert (first.came("get_collections"), second.came("get_collections")) == (2, 2)
    assert nodes.nodes[0].is_up  # it is up itself


def test_questions_give_up_sooner_than_changes_which_say_that_they_wait(pair, nodes, caplog, monkeypatch):
    first, second = pair
    first.stop()
    second.stop()
    begun = time.monotonic()
    with pytest.raises(StoreError, match="cannot reach the Qdrant servers at"):
        ask(nodes)
    assert 1 < time.monotonic() - begun < 5
    assert not caplog.records
    monkeypatch.setattr(retries, "_SILENT", 0.5)
    threading.Timer(1.5, second.start).start()
    with caplog.at_level(logging.WARNING):
        ask(nodes, patient=True)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "check the url. It is asked again for up to 8 s; what is stored stays" in said
    assert first.url in said


def test_an_address_that_does_not_answer_is_told_at_once(pair):
    pair[0].fault("get_collections", Status(503), times=9)
    with pytest.raises(StoreError, match="503"):
        Nodes.of(Location(url=pair[0].url))
    assert pair[0].came("get_collections") == 1


def test_an_answer_is_waited_for_as_long_as_the_location_says(pair):
    nodes = Nodes.of(Location(url=pair[0].url, timeout=1, retries=RetryPolicy(attempts=1)))
    pair[0].fault("get_collections", Broken.SILENT)
    begun = time.monotonic()
    with pytest.raises(StoreError, match="does not answer in time"):
        ask(nodes, patient=True)
    assert 0.9 < time.monotonic() - begun < 4  # five by default
    nodes.close()


def test_answers_are_not_compressed(pair):
    Nodes.of(Location(url=pair[0].url)).close()
    headers = {name.lower(): value for name, value in pair[0].seen[-1].headers.items()}
    assert headers["accept-encoding"] == "identity"


def test_addresses_are_given_as_a_list_or_with_commas():
    given = Location(url=["http://a:6333", " http://b:7000"])
    assert given == Location(url="http://a:6333,http://b:7000")
    assert given.urls == ("http://a:6333", "http://b:7000")
    assert [given.grpc_port_of(url) for url in given.urls] == [6334, 7001]
    assert Location(url="a:7000,b").grpc_port_of("a:7000") == 7001  # the client takes it for http
    assert Location(url="http://a:7000").grpc_port_of("http://a:7000") == 7001
    assert Location(url="https://a").grpc_port_of("https://a") == 6334
    assert Location(url="http://a:7000,http://b", grpc_port=9).grpc_port_of("http://a:7000") == 9
    assert (
        "secret"
        not in f"{Location(url='http://a,http://me:secret@b')!s}{Location(url='http://me:secret@b')!r}"
    )
    for wrong in ("", "http://a,", [], ["http://a", ""]):
        with pytest.raises(DataError, match="names no Qdrant server"):
            Location(url=wrong)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@a:6333/path", "http://a:6333/path"),
        ("me:secret@a:6333", "a:6333"),
        ("http://a,me:secret@b, x:secret@c", "http://a,b, c"),
        ("['http://a', 'me:secret@b', '']", "['http://a', 'b', '']"),
        ("http://a/papers@1", "http://a/papers@1"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert shown_url(url) == shown
