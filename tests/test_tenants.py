"""Many customers in one index: a payload index of tenants, or a shard for each of them."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from conftest import NEEDS_EDGE, Opener
from qdrant_client import QdrantClient, models
from qdrant_rest import QdrantRest
from real_server import server_url
from words import WordEncoder

from surprise_rerank import Passages
from surprise_rerank.candidates import Field
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions, SearchOptions
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import tenants_in
from surprise_rerank.documents import Document
from surprise_rerank.encoders import loading
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.eval.cli.surprise_rerank.main import command
from surprise_rerank.surprise.ensemble import Ensemble

pytestmark = NEEDS_EDGE

TENANTS = ("acme", "bolt", "cord")
DOCUMENTS = [
    Document(
        str(i), f"text number {i} of cats and dogs. " * (1 + i % 4), metadata={"customer": TENANTS[i % 3]}
    )
    for i in range(30)
]
EVERYTHING: frozenset[Field] = frozenset({"dense", "tokens", "terms", "documents"})
BY_TENANT = IndexOptions(tenant="customer")
SHARDED = replace(BY_TENANT, shard_by_tenant=True)
PASSAGES = replace(SHARDED, passages=Passages(tokens=8, overlap=0, best=2))


def of(*tenants: str) -> models.Filter:
    match = models.MatchAny(any=list(tenants)) if len(tenants) > 1 else models.MatchValue(value=tenants[0])
    return models.Filter(must=[models.FieldCondition(key="metadata.customer", match=match)])


def query() -> Any:
    (made,) = encode_queries(WordEncoder(), ["cats of number 7"])
    return made


def hybrid(index: DocumentIndex, options: SearchOptions = SearchOptions()) -> set[str]:  # noqa: B008
    words = SparseRetriever(index, options)
    return set(HybridRetriever(index, words, options=options).retrieve(query(), 30, EVERYTHING).ids)


def ids(tenant: str, documents: list[Document] = DOCUMENTS) -> set[str]:
    return {d.id for d in documents if d.metadata["customer"] == tenant}


def test_a_search_of_a_tenant_finds_its_documents_only(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync(DOCUMENTS)
        for name in TENANTS:
            found = hybrid(index, SearchOptions(tenant=name))
            assert found == ids(name) == hybrid(index, SearchOptions(filter=of(name)))
        assert not hybrid(index, SearchOptions(tenant="nobody"))
        steps = DenseRetriever(index, options=SearchOptions(tenant="acme")).steps(query(), 5)
        assert "of tenant 'acme'" in steps[0]
    with open_index(None) as index:
        assert index.manifest.options.tenant == "customer"


def test_a_document_without_a_tenant_is_stored_where_there_are_no_shards(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync([*DOCUMENTS, Document("nobody's", "cats")])
        assert len(index) == 31
        assert "nobody's" in hybrid(index)


def test_a_server_has_a_payload_index_of_tenants(rest: QdrantRest) -> None:
    name = f"test-{uuid.uuid4()}"
    DocumentIndex.open(None, WordEncoder(), url=rest.url, collection=name, options=BY_TENANT).close()
    schema = rest.api.indexes[f"{name}@1"]["metadata.customer"]
    assert schema == models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)


def test_an_index_without_tenants_says_how_to_get_them(open_index: Opener) -> None:
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS[:3])
        with pytest.raises(DataError, match=r"has no tenants; make it with IndexOptions\(tenant="):
            DenseRetriever(index, options=SearchOptions(tenant="acme")).retrieve(query(), 3)
    with pytest.raises(IndexMismatchError, match="tenant=None, asked for is tenant='customer'"):
        open_index(WordEncoder(), options=BY_TENANT)


def test_what_is_no_tenant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no key of the metadata"):
        IndexOptions(tenant="a..b")
    with pytest.raises(DataError, match="shard_by_tenant needs tenant"):
        IndexOptions(shard_by_tenant=True)
    with pytest.raises(DataError, match="is for a Qdrant server that is a cluster"):
        DocumentIndex.open(tmp_path / "index", WordEncoder(), options=SHARDED)


def test_tenants_are_found_in_what_a_filter_demands() -> None:
    path = "metadata.customer"
    year = models.FieldCondition(key="metadata.year", match=models.MatchValue(value=1920))
    assert tenants_in(of("acme"), path) == ["acme"]
    assert tenants_in(of("acme", "bolt"), path) == ["acme", "bolt"]
    assert tenants_in(models.Filter(must=[year, of("acme")]), path) == ["acme"]
    assert tenants_in(models.Filter(must=of("acme").must[0]), path) == ["acme"]  # type: ignore[index]
    for free in (None, models.Filter(should=of("acme").must), models.Filter(must_not=of("acme").must)):
        assert tenants_in(free, path) is None
    assert tenants_in(models.Filter(must=[year]), path) is None


def test_the_command_line_has_tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_encoder", lambda name, *_, **__: WordEncoder(name=name))
    monkeypatch.setattr(loading, "load_question_encoder", lambda name, *_, **__: WordEncoder(name=name))
    file, own = tmp_path / "a.jsonl", ["--index", str(tmp_path / "index"), "--quiet"]
    rows = [{"id": d.id, "text": d.text, "metadata": dict(d.metadata)} for d in DOCUMENTS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, *own], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    run("index", str(file), "--tenant", "customer")
    assert "tenant" in run("status")
    found = json.loads(run("search", "cats", "--tenant", "bolt", "--json", "--top", "30"))
    assert {hit["id"] for hit in found["hits"]} == ids("bolt")


class Cluster:
    """An index on a cluster."""

    def __init__(self, url: str, *, by_grpc: bool) -> None:
        self.url, self.by_grpc, self.name = url, by_grpc, f"test-{uuid.uuid4()}"
        key = os.environ.get("QDRANT_API_KEY")
        self.client = QdrantClient(url, headers={"api-key": key} if key else None, check_compatibility=False)

    def opened(self, options: IndexOptions | None = None, **more: Any) -> DocumentIndex:
        port = int(os.environ.get("QDRANT_GRPC_PORT", (urlsplit(self.url).port or 6333) + 1))
        return DocumentIndex.open(
            None,
            WordEncoder(),
            url=self.url,
            collection=self.name,
            options=options,
            prefer_grpc=self.by_grpc,
            grpc_port=port,
            **more,
        )

    def shards(self, version: str = "@1") -> dict[str, int]:
        """Tenant -> points in its shard."""
        found = self.client.list_shard_keys(f"{self.name}{version}").shard_keys or []
        return {
            str(own.key): self.client.count(f"{self.name}{version}", shard_key_selector=own.key).count
            for own in found
        }


@pytest.fixture(params=["rest", "grpc"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(server_url(), by_grpc=request.param == "grpc")
    if getattr(made.client.cluster_status(), "peers", None) is None:
        pytest.skip("the Qdrant server is no cluster (QDRANT__CLUSTER__ENABLED=true)")
    yield made
    for found in made.client.get_collections().collections:
        if found.name.startswith(made.name):
            made.client.delete_collection(found.name)
    made.client.close()


@pytest.mark.server
@pytest.mark.parametrize("options", [replace(SHARDED, passages=None), PASSAGES])
def test_every_tenant_has_a_shard_and_nothing_else_changes(cluster: Cluster, options: IndexOptions) -> None:
    plain = DocumentIndex.open(":memory:", WordEncoder(), options=replace(options, shard_by_tenant=False))
    with cluster.opened(options) as index, plain:
        assert not hybrid(index)  # nothing is stored yet
        for own in (plain, index):
            own.sync(DOCUMENTS)
            own.set_ensemble(
                Ensemble.from_vectors(WordEncoder().encode(["a cat", "dogs"]).dense, model="words")
            )
        assert cluster.shards().keys() == set(TENANTS)
        assert len(index) == 30
        assert index.status().points == plain.status().points
        assert index.status().behind == 0
        assert hybrid(index) == hybrid(plain)
        for name in TENANTS:
            assert hybrid(index, SearchOptions(tenant=name)) == ids(name)
            found = index.search(query(), 30, EVERYTHING, options=SearchOptions(filter=of(name)))
            expected = plain.search(query(), 30, EVERYTHING, options=SearchOptions(filter=of(name)))
            assert set(found.ids) == set(expected.ids)
        assert hybrid(index, SearchOptions(filter=of("acme", "bolt"))) == ids("acme") | ids("bolt")
        assert not hybrid(index, SearchOptions(tenant="nobody"))
        assert hybrid(index, SearchOptions(filter=of("acme", "nobody"))) == ids("acme")
        some = index.fetch(["3", "4"], EVERYTHING)
        assert {document.id for document in some.documents or ()} == {"3", "4"}
        pairs = (index.term_statistics(), plain.term_statistics())
        assert pairs[0].points == pairs[1].points
        assert len(list(index.pipeline("surprise").search("cats", top_k=5))) == 5


@pytest.mark.server
def test_a_document_that_changes_its_tenant_changes_the_shard(cluster: Cluster) -> None:
    with cluster.opened(PASSAGES) as index:
        index.sync(DOCUMENTS)
        before = cluster.shards()
        moved = replace(DOCUMENTS[3], metadata={"customer": "dune"})
        report = index.sync([moved, *DOCUMENTS[:3], *DOCUMENTS[4:]], prune=True)
        assert (report.updated, report.unchanged) == (1, 29)
        after = cluster.shards()
        assert after["acme"] < before["acme"]
        assert after["acme"] + after["dune"] == before["acme"]
        assert len(index) == 30
        assert hybrid(index, SearchOptions(tenant="dune")) == {"3"}
        assert index.delete(["3", "4"]) == 2
        assert cluster.shards()["dune"] == 0
        assert len(index) == 28


@pytest.mark.server
def test_a_document_without_a_tenant_is_named_before_anything_is_stored(cluster: Cluster) -> None:
    with cluster.opened(SHARDED) as index:
        for wrong in (None, 7, ["acme"], ""):
            metadata = {} if wrong is None else {"customer": wrong}
            with pytest.raises(DataError, match=r"document 'x' has no tenant.*at 'customer'"):
                index.sync([*DOCUMENTS[:2], Document("x", "cats", metadata=metadata)])
        assert len(index) == 0


@pytest.mark.server
def test_an_index_is_rebuilt_with_shards_of_tenants_and_without(cluster: Cluster) -> None:
    with cluster.opened(BY_TENANT) as index:
        index.sync(DOCUMENTS)
        index.rebuild(DOCUMENTS, options=SHARDED)
        assert hybrid(index, SearchOptions(tenant="acme")) == ids("acme")
        version = index.storage.engine.where.rpartition("@")[2].rstrip("'")
        assert cluster.shards(f"@{version}").keys() == set(TENANTS)
        spread = index.placement()
        assert spread is not None
        assert {shard.key for shard in spread.shards} == set(TENANTS)
    with cluster.opened() as index:  # as it is
        assert hybrid(index, SearchOptions(tenant="bolt")) == ids("bolt")
        index.rebuild(DOCUMENTS, options=BY_TENANT)
        assert hybrid(index, SearchOptions(tenant="bolt")) == ids("bolt")
