"""Servers that are too old, keys without TLS, and tokens that do not reach enough."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import models
from qdrant_rest import QdrantRest, Status, fresh_collection
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.errors import StoreError


@pytest.fixture
def server() -> Iterator[QdrantRest]:
    with QdrantRest() as made:
        yield made


def claims_to_be(server: QdrantRest, version: str) -> None:
    page = json.dumps({"title": "qdrant - vector search engine", "version": version}).encode()
    server.fault("GET", "/", Status(200, page=page), times=100)


def opened(server: QdrantRest, **more: Any) -> DocumentIndex:
    return DocumentIndex.open(None, WordEncoder(), url=server.url, collection=fresh_collection(), **more)


def test_a_server_that_is_too_old_is_told_when_an_index_is_opened(server: QdrantRest) -> None:
    claims_to_be(server, "1.12.1")
    with pytest.raises(StoreError, match=r"version 1\.12\.1, older than 1\.15\.4.*upgrade it$"):
        opened(server)
    assert not server.store.get_collections().collections


@pytest.mark.parametrize("version", ["1.15.4", "1.16.0", "1.18.3-dev", "2.0.1", "unknown"])
def test_later_servers_and_such_that_do_not_say_are_taken(server: QdrantRest, version: str) -> None:
    claims_to_be(server, version)
    opened(server).close()


def test_a_server_whose_version_is_hidden_is_taken(server: QdrantRest) -> None:
    server.fault("GET", "/", Status(403), times=100)
    opened(server).close()


@pytest.mark.parametrize(
    ("version", "dimension", "numbers"),
    [
        ("1.18.3", 128, models.Datatype.FLOAT16),
        ("1.19.0", 127, models.Datatype.FLOAT16),
        ("1.19.0", 128, models.Datatype.TURBO4),
    ],
)
def test_token_vectors_are_in_codes_where_server_and_dimension_allow_it(
    server: QdrantRest, version: str, dimension: int, numbers: models.Datatype
) -> None:
    claims_to_be(server, version)
    nodes = Nodes.of(Location(url=server.url))
    assert ClientEngine(nodes, "x").token_numbers(dimension) == numbers
    nodes.close()


def test_a_key_without_tls_is_one_line_and_for_other_machines_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from surprise_rerank.connectors.qdrant.engines.nodes import key_header

    with QdrantRest(api_key="secret") as guarded, warnings.catch_warnings():
        warnings.simplefilter("error")
        Nodes.of(Location(url=guarded.url, api_key="secret")).close()
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
