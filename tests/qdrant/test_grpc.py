"""An index over gRPC: it stores and finds what one over REST does, and meets faults in the same way."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode
from qdrant_client import QdrantClient, models
from qdrant_grpc import Abort, NoAnswer, QdrantGrpc
from qdrant_rest import QdrantRest, fresh_collection
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.qdrant import (
    Bm25,
    DocumentIndex,
    IndexOptions,
    SearchOptions,
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.core.arrays import FloatArray
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import IndexingError, IndexMismatchError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble

QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02, time_limit=20)
KEY = "a-very-secret-key"
MODES = ("client", "formula", "vector")
WORDS = [f"w{i}" for i in range(40)]
RANDOM = np.random.default_rng(7)
# One is empty, and one in six is longer than what a passage takes.
DOCUMENTS = [
    Document(
        f"d{i}",
        " ".join(RANDOM.choice(WORDS, size=30 if i % 6 == 0 else RANDOM.integers(2, 8) * (i != 1))),
        metadata={
            "year": 1990 + i % 10,
            "author": f"a{i % 4}",
            "weights": [1.0, 1, None, {"even": i % 2 == 0}],
        },
    )
    for i in range(90)
]
QUESTIONS = [" ".join(RANDOM.choice(WORDS, size=4)) for _ in range(25)]
ASKED = [" ".join(RANDOM.choice(WORDS, size=3)) for _ in range(8)]
FULL = IndexOptions(
    passages=Passages(tokens=10, overlap=2),
    surprise_vector=True,
    bm25=Bm25(),
    payload_indexes={"metadata.year": "integer"},
)
SINCE_1995 = models.Filter(must=[models.FieldCondition(key="metadata.year", range=models.Range(gte=1995))])


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[QdrantGrpc, QdrantRest]]:
    """One store, spoken to in both ways."""
    with QdrantRest() as rest, QdrantGrpc(api=rest.api) as server:
        yield server, rest


@pytest.fixture
def server(servers: tuple[QdrantGrpc, QdrantRest]) -> Iterator[QdrantGrpc]:
    server, _ = servers
    server.forget()
    yield server
    assert not server.api.crashes


@pytest.fixture(scope="module")
def pair(servers: tuple[QdrantGrpc, QdrantRest]) -> Iterator[tuple[DocumentIndex, DocumentIndex]]:
    """The same index over gRPC and over REST; only to be read."""
    server, rest = servers
    encoder = WordEncoder()
    by_rest = DocumentIndex.open(None, encoder, url=rest.url, collection="by-rest", options=FULL)
    with opened(server, "by-grpc", options=FULL) as index, by_rest:
        for filled in (index, by_rest):
            report = filled.sync(DOCUMENTS)
            assert (report.added, report.split) == (90, 15)
            filled.set_ensemble(ensemble(QUESTIONS), source="questions")
        yield index, by_rest


@pytest.fixture
def index(pair: tuple[DocumentIndex, DocumentIndex]) -> DocumentIndex:
    return pair[0]


def opened(server: QdrantGrpc, collection: str | None = None, **more: Any) -> DocumentIndex:
    return DocumentIndex.open(
        None,
        more.pop("encoder", None) or WordEncoder(),
        url=server.url,
        prefer_grpc=True,
        grpc_port=more.pop("grpc_port", server.port),
        collection=collection or fresh_collection(),
        retries=QUICK,
        timeout=more.pop("timeout", 20),
        **more,
    )


def ensemble(questions: list[str]) -> Ensemble:
    return Ensemble.from_vectors(WordEncoder().encode(questions).dense, model="words")


def queries() -> list[Query]:
    return encode_queries(WordEncoder(), ASKED)


def contents(store: QdrantClient, name: str) -> dict[str, tuple[Any, Any]]:
    """Every point with all that it holds."""
    records, _ = store.scroll(name, limit=10_000, with_vectors=True)
    return {str(record.id): (record.payload, record.vector) for record in records}


def stored(server: QdrantGrpc, name: str) -> Counter[str]:
    """How often each document is stored, seen from behind the server, each with its tokens."""
    payloads = [payload for payload, _ in contents(server.store, name).values()]
    named = Counter(payload["id"] for payload in payloads if "id" in payload)
    assert all("token_shape" in payload for payload in payloads)
    return named


def assert_same(found: Candidates, expected: Candidates) -> None:
    """The same documents with the same scores, in their order.

    gRPC carries scores in float32, as Qdrant computes them; REST hands on local mode's float64. What differs
    by less is a tie.
    """
    shared = found.scores.keys() & expected.scores.keys()
    assert shared
    for name in shared:
        ours, theirs = best(found, found.scores[name]), best(expected, expected.scores[name])
        assert ours.keys() == theirs.keys()
        in_our_order = np.array([theirs[document] for document in ours])
        np.testing.assert_allclose(list(ours.values()), in_our_order, rtol=1e-5, atol=1e-6)
        assert (np.diff(in_our_order) <= 1e-6).all()


def best(found: Candidates, scores: FloatArray) -> dict[str, float]:
    """Document -> score of its passage that comes first."""
    first: dict[str, float] = {}
    for document, score in zip(found.ids, scores.tolist(), strict=True):
        first.setdefault(document, score)
    return first


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_what_is_stored_is_what_rest_stores(
    pair: tuple[DocumentIndex, DocumentIndex], server: QdrantGrpc
) -> None:
    index, by_rest = pair
    assert index.manifest == by_rest.manifest
    assert contents(server.store, "by-grpc") == contents(server.store, "by-rest")
    schemas = server.api.indexes
    kinds = {name: models.PayloadSchemaType(kind) for name, kind in schemas["by-rest@1"].items()}
    assert schemas["by-grpc@1"] == kinds
    found = index.fetch([d.id for d in DOCUMENTS], frozenset({"documents", "dense", "tokens"}))
    assert {d.id: d for d in found.documents or ()} == {d.id: d for d in DOCUMENTS}
    with opened(server, "by-rest") as other:  # and takes over what REST has stored
        assert other.sync(DOCUMENTS).unchanged == 90
        assert other.status().behind == 0


def test_a_second_sync_stores_nothing(index: DocumentIndex, server: QdrantGrpc) -> None:
    assert index.sync(DOCUMENTS).unchanged == 90
    assert server.count("Upsert") == 0
    status = index.status()
    assert (status.engine, status.documents, status.behind) == ("server", 90, 0)
    assert status.points == len(contents(server.store, "by-grpc")) > 90


@pytest.mark.parametrize(
    "options",
    [SearchOptions(), SearchOptions(filter=SINCE_1995, offset=3), SearchOptions(score_threshold=0.2)],
    ids=["plain", "filter", "threshold"],
)
def test_searches_find_what_they_find_over_rest(
    pair: tuple[DocumentIndex, DocumentIndex], options: SearchOptions
) -> None:
    fields = frozenset({"documents", "dense", "tokens"})
    for query in queries():
        found, expected = (index.search(query, 20, fields, exact=True, options=options) for index in pair)
        assert len(found) > 0
        assert_same(found, expected)
        assert {d.id: d for d in found.documents or ()} == {d.id: d for d in expected.documents or ()}
        if options.filter:
            assert all(d.metadata["year"] >= 1995 for d in found.documents or ())


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(filter=SINCE_1995, offset=2)])
def test_the_three_places_give_one_ranking(
    pair: tuple[DocumentIndex, DocumentIndex], options: SearchOptions
) -> None:
    for query in queries():
        client, formula, vector = (
            SurpriseRetriever(pair[0], mode=mode, pool=90, exact=True, options=options).retrieve(query, 15)
            for mode in MODES
        )
        assert len(set(client.ids)) == 15
        assert_same(formula, client)
        assert_same(vector, client)
        over_rest = SurpriseRetriever(pair[1], mode="formula", pool=90, exact=True, options=options)
        assert_same(formula, over_rest.retrieve(query, 15))


def test_bm25_is_what_it_is_over_rest(pair: tuple[DocumentIndex, DocumentIndex]) -> None:
    for query in queries():
        found, expected = (SparseRetriever(index).retrieve(query, 20) for index in pair)
        assert len(found) > 0
        assert_same(found, expected)


def test_statistics_follow_the_questions(server: QdrantGrpc) -> None:
    name = fresh_collection()
    options = IndexOptions(passages=None, surprise_vector=True)
    with opened(server, name, options=options) as index:
        index.sync(DOCUMENTS[:40])
        assert index.set_ensemble(ensemble(QUESTIONS), source="logged", shrink_deviation=0.5) == 40
        assert index.add_questions(["w1 w9", "w8"]) == 27
        assert index.status().behind == 40
    with opened(server, name) as index:  # the ensemble comes from the server
        assert index.refresh_statistics() == 40
        status = index.status()
        assert status.behind == 0
        assert status.manifest.statistics is not None
        assert (status.manifest.statistics.count, status.manifest.statistics.source) == (27, "logged")
        assert len(SurpriseRetriever(index, mode="formula").retrieve(queries()[0], 10)) == 10


def test_an_index_is_rebuilt_and_its_documents_deleted(server: QdrantGrpc) -> None:
    name = fresh_collection()
    with opened(server, name) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(ensemble(QUESTIONS))
        assert index.rebuild(DOCUMENTS[:50], options=FULL).added == 50
        assert len(index) == 50
        assert index.status().behind == 0
        assert not server.store.collection_exists(f"{name}@1")
        assert index.delete(["d0", "d1", "unknown"]) == 2
        now = index.storage.engine.collection
        assert now.startswith(f"{name}@2-")
        assert set(stored(server, now)) == {d.id for d in DOCUMENTS[2:50]}
        assert index.sync(DOCUMENTS[:10], prune=True).removed == 40
        assert set(stored(server, now)) == {d.id for d in DOCUMENTS[:10]}


def test_an_index_that_is_opened_with_another_model_names_both(server: QdrantGrpc) -> None:
    name = fresh_collection()
    opened(server, name).close()
    other = WordEncoder(32, name="sentences", fingerprint="1")
    with pytest.raises(IndexMismatchError, match=r"made by model 'words' .* asked for is 'sentences'"):
        opened(server, name, encoder=other)
    with pytest.raises(IndexMismatchError, match="passages"):
        opened(server, name, options=IndexOptions(passages=None))


@pytest.mark.parametrize(
    "fault",
    [
        Abort(StatusCode.UNAVAILABLE),
        Abort(StatusCode.UNAVAILABLE, applied=True),
        Abort(StatusCode.RESOURCE_EXHAUSTED, "rate limit"),
        Abort(StatusCode.ABORTED, applied=True),
    ],
    ids=str,
)
def test_bursts_are_outlasted(server: QdrantGrpc, fault: Abort) -> None:
    name = fresh_collection()
    making = ("Collections/Create", "Collections/Get", "UpdateAliases", "ListAliases", "CreateFieldIndex")
    using = ("Upsert", "Points/Get", "Scroll", "QueryBatch", "UpdateBatch", "Collections/Update", "Count")
    for method in making:
        server.fault(method, fault, times=2)
    with opened(server, name) as index:
        for method in using:
            server.fault(method, fault, times=2)
        assert index.sync(DOCUMENTS).added == 90
        index.set_ensemble(ensemble(QUESTIONS))
        assert index.status().behind == 0
        assert len(index.search(queries()[0], 5)) == 5
        assert set(stored(server, f"{name}@1")) == {d.id for d in DOCUMENTS}
        assert index.sync(DOCUMENTS).unchanged == 90
    assert min(server.count(method) for method in (*making, *using)) >= QUICK.attempts


# What a first sync writes beside the documents: the statistics of words, and that they are of these points.
OF_WORDS = 2


def test_a_wait_that_the_server_asks_for_is_kept(server: QdrantGrpc) -> None:
    with opened(server) as index:
        server.fault("Upsert", Abort(StatusCode.RESOURCE_EXHAUSTED, "rate limit", retry_after=1))
        assert index.sync(DOCUMENTS[:5]).added == 5
        written = server.count("Upsert")
        assert written == 2 + OF_WORDS
        server.fault("Upsert", Abort(StatusCode.RESOURCE_EXHAUSTED, "rate limit", retry_after=3600), times=9)
        with pytest.raises(IndexingError, match="asks to wait for 3600 s"):
            index.sync(DOCUMENTS[5:10])
        assert server.count("Upsert") == written + 1


def test_a_write_that_was_applied_and_never_answered_is_written_once(server: QdrantGrpc) -> None:
    name = fresh_collection()
    some = DOCUMENTS[1:6]
    with opened(server, name, timeout=1) as index:
        server.fault("Upsert", NoAnswer())
        assert index.sync(some).added == 5
        assert server.count("Upsert") == 2 + OF_WORDS
        assert stored(server, f"{name}@1") == Counter(d.id for d in some)
        assert index.sync(some).unchanged == 5


@pytest.mark.parametrize(
    ("fault", "told", "sent"),
    [
        (Abort(StatusCode.UNAVAILABLE), "cannot reach", 3),
        (Abort(StatusCode.DEADLINE_EXCEEDED), "does not answer in time", 3),
        (Abort(StatusCode.RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED", 3),
        (Abort(StatusCode.INTERNAL, "disk is full"), "INTERNAL: disk is full", 1),
        (Abort(StatusCode.UNAUTHENTICATED), "refuses access", 1),
        (Abort(StatusCode.PERMISSION_DENIED), "set QDRANT_API_KEY", 1),
    ],
    ids=str,
)
def test_a_fault_that_stays_is_told_with_the_documents_that_are_missing(
    server: QdrantGrpc, fault: Abort, told: str, sent: int
) -> None:
    with opened(server) as index:
        server.fault("Upsert", fault, times=1000)
        with pytest.raises(IndexingError, match=told) as caught:
            index.sync(DOCUMENTS[:10])
        assert "\n" not in str(caught.value)
        assert caught.value.missing == tuple(d.id for d in DOCUMENTS[:10])
        assert server.count("Upsert") == sent
        server.heal()
        assert index.sync(DOCUMENTS[:10]).added == 10


def test_a_collection_that_is_gone_is_told(server: QdrantGrpc) -> None:
    name = fresh_collection()
    with opened(server, name) as index:
        index.sync(DOCUMENTS[:5])
        server.api.drop(name)
        calls: list[Callable[[], object]] = [
            lambda: index.search(queries()[0], 5),
            lambda: index.sync(DOCUMENTS[:5]),
            index.status,
        ]
        for call in calls:
            with pytest.raises(StoreError, match="does not exist any more; index again"):
                call()


def test_a_batch_above_the_limit_of_a_proxy_is_split() -> None:
    many = [Document(str(n), f"w{n}", metadata={"attachment": "x" * 20_000}) for n in range(40)]
    many[7] = Document("7", "w7", metadata={"attachment": "x" * 300_000})
    with QdrantGrpc(limit=200_000) as small, opened(small, "many") as index:
        with pytest.raises(IndexingError, match="larger than max") as caught:
            index.sync(many)
        assert caught.value.missing == ("7",)
        assert stored(small, "many@1") == Counter(d.id for d in many if d.id != "7")


@pytest.fixture
def guarded() -> Iterator[QdrantGrpc]:
    with QdrantGrpc(api_key=KEY) as server:
        yield server


@pytest.mark.parametrize("wrong", ["another-key", None])
def test_a_wrong_key_is_told_at_once_and_shown_nowhere(
    guarded: QdrantGrpc, wrong: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    with pytest.raises(StoreError, match="set QDRANT_API_KEY") as caught:
        opened(guarded, api_key=wrong)
    assert wrong is None or wrong not in shown(caught.value)
    assert guarded.count("Collections/List") == 1


def test_the_version_is_told_without_a_key(guarded: QdrantGrpc) -> None:
    client = QdrantClient(
        url=guarded.url, grpc_port=guarded.port, prefer_grpc=True, check_compatibility=False
    )
    assert client.info().version
    client.close()


def test_the_right_key_opens_and_is_in_no_error(guarded: QdrantGrpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    with opened(guarded) as index:
        assert KEY not in repr(index)
        for code in (StatusCode.UNAUTHENTICATED, StatusCode.UNAVAILABLE, StatusCode.INTERNAL):
            guarded.fault("Upsert", Abort(code), times=1000)
            with pytest.raises(IndexingError) as caught:
                index.sync(DOCUMENTS[:5])
            assert KEY not in shown(caught.value)
            guarded.heal()
        assert index.sync(DOCUMENTS[:5]).added == 5


@pytest.mark.parametrize("key", ["two-lines\nof-a-key", "not-ascii-\u20ac-key"])
def test_a_key_that_no_header_can_hold_is_not_shown(
    guarded: QdrantGrpc, key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreError, match="QDRANT_API_KEY") as caught:
        opened(guarded, api_key=key)
    everything = shown(caught.value) + "".join(capfd.readouterr())
    assert "of-a-key" not in everything
    assert "ascii-" not in everything
    assert guarded.count("Collections/List") == 0


def test_a_port_where_nobody_speaks_grpc_is_told_at_once(servers: tuple[QdrantGrpc, QdrantRest]) -> None:
    server, rest = servers
    for port in (1, int(rest.url.rpartition(":")[2])):
        with pytest.raises(StoreError, match=r"cannot reach .* check the url") as caught:
            opened(server, grpc_port=port)
        assert "\n" not in str(caught.value)
