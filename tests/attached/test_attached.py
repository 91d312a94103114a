"""Collections that somebody else made: the same behaviour in local mode, over REST and on a server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_rest import QdrantRest, Status
from real_server import server_url
from words import WordEncoder

from surprise_rerank import FunctionEncoder
from surprise_rerank.connectors.attached import Collection, EnrichCost
from surprise_rerank.connectors.attached.enriched import RECORD, WORD_STATISTICS
from surprise_rerank.connectors.attached.enriching import Enricher
from surprise_rerank.connectors.attached.pools import ForeignPools
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions, SparseRetriever
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.documents import Document
from surprise_rerank.errors import (
    DataError,
    ForeignCollectionError,
    IndexMismatchError,
    ModelError,
    StoreError,
)
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.thresholds.varied_questions import varied_questions

pytestmark = [pytest.mark.filterwarnings("ignore:Payload indexes:UserWarning")]

TOPICS = ("cats purr on mats", "dogs bark at night", "stocks fell on monday", "bread needs flour and water")
TEXTS = [
    f"{topic} {' '.join(f'word{i * k % 29}' for k in range(1, 9))}" for i in range(12) for topic in TOPICS
]
QUESTION = "which bread needs flour"


class Store:
    """A Qdrant, and a name for a collection in it."""

    def __init__(self, client: QdrantClient, name: str, url: str | None = None) -> None:
        self.client, self.name, self.url = client, name, url

    def make(
        self,
        encoder: WordEncoder,
        texts: list[str] = TEXTS,
        *,
        distance: models.Distance = models.Distance.COSINE,
        vector: str = "",
        words: bool = False,
        tokens: bool = False,
        scale: float = 1.0,
        ids: Callable[[int], Any] = lambda i: i,
        payload: Callable[[int, str], dict[str, Any]] = lambda i, text: {"text": text, "year": 2000 + i % 4},
    ) -> None:
        params = models.VectorParams(size=encoder.dimension, distance=distance)
        several = {vector or "dense": params}
        if tokens:
            multi = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
            several["colbert"] = models.VectorParams(
                size=encoder.dimension, distance=models.Distance.COSINE, multivector_config=multi
            )
        named = bool(vector or words or tokens)
        sparse = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)} if words else None
        self.client.create_collection(self.name, several if named else params, sparse_vectors_config=sparse)
        self.add(
            encoder, texts, vector=vector, words=words, tokens=tokens, scale=scale, ids=ids, payload=payload
        )

    def add(
        self,
        encoder: WordEncoder,
        texts: list[str],
        *,
        first: int = 0,
        vector: str = "",
        words: bool = False,
        tokens: bool = False,
        scale: float = 1.0,
        ids: Callable[[int], Any] = lambda i: i,
        payload: Callable[[int, str], dict[str, Any]] = lambda i, text: {"text": text, "year": 2000 + i % 4},
    ) -> None:
        encoded = encoder.encode(texts)
        points = []
        for i, text in enumerate(texts):
            dense = (scale * (1 + i % 3) if scale != 1 else 1) * encoded.dense[i]
            vectors: Any = dense.tolist()
            if vector or words or tokens:
                vectors = {vector or "dense": vectors}
            if words:
                own = Bm25().documents([text])[0]
                vectors["bm25"] = models.SparseVector(
                    indices=own.indices.tolist(), values=own.values.tolist()
                )
            if tokens:
                vectors["colbert"] = encoded.require_tokens()[i].tolist()
            points.append(
                models.PointStruct(id=ids(first + i), vector=vectors, payload=payload(first + i, text))
            )
        self.client.upsert(self.name, points, wait=True)

    def everything(self) -> list[models.Record]:
        return self.client.scroll(self.name, limit=1000, with_payload=True, with_vectors=True)[0]


def uuids(i: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, str(i)))


@pytest.fixture(params=["local", "rest", pytest.param("server", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    name = f"foreign-{uuid.uuid4()}"
    if request.param == "local":
        client, url = QdrantClient(":memory:"), None
    else:
        url = request.getfixturevalue("rest").url if request.param == "rest" else server_url()
        client = QdrantClient(url, check_compatibility=False)
    yield Store(client, name, url)
    for found in client.get_collections().collections:
        if found.name.startswith(name):
            client.delete_collection(found.name)
    client.close()


@pytest.fixture
def local() -> Store:
    return Store(QdrantClient(":memory:"), "foreign")


SHAPES: dict[str, dict[str, Any]] = {
    "unnamed cosine, numbers": {},
    "named dot, UUIDs": {"vector": "mine", "distance": models.Distance.DOT, "ids": uuids},
    "euclid of unit vectors": {"distance": models.Distance.EUCLID},
    "sparse vectors beside": {"words": True},
    "multivectors beside": {"tokens": True, "ids": uuids},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_collection_of_any_shape_is_ranked_as_it_is(store: Store, shape: str) -> None:
    encoder = WordEncoder()
    store.make(encoder, **SHAPES[shape])
    collection = Collection.attach(store.client, store.name, embed=encoder)
    query = encoder.encode([QUESTION]).dense[0]
    expected = np.argsort(-(encoder.encode(TEXTS).dense @ query), kind="stable")[:5]
    encoder.encoded_texts.clear()
    ranking = collection.pipeline("cosine").search(QUESTION, 5)
    assert ranking.documents is not None
    assert [document.text for document in ranking.documents] == [TEXTS[i] for i in expected]
    assert ranking.documents[0].metadata == {"year": 2000 + int(expected[0]) % 4}
    for system in ("auto", "fusion", "surprise", None):
        found = collection.pipeline(system).search(QUESTION, 5)
        assert len(found) == 5
        assert "bread" in next(iter(found)).document.text  # type: ignore[union-attr]
    assert set(encoder.encoded_texts) == {QUESTION}


@pytest.mark.parametrize("shape", ["1536 dimensions of a function", "sparse and dense", "multivectors"])
def test_everything_works_with_every_shape(store: Store, tmp_path: Path, shape: str) -> None:
    words, tokens = WordEncoder(1536, "api"), WordEncoder(16, "tokens")
    own = {"sparse and dense": {"words": True}, "multivectors": {"tokens": True}}.get(shape, {})
    store.make(words if not own else tokens, ids=uuids, **own)
    api = FunctionEncoder(lambda texts: words.encode(texts).dense, name="api")
    model: Any = tokens if own else api
    attached = Collection.attach(store.client, store.name, embed=model, token_encoder=tokens, keep=tmp_path)
    only = models.Filter(must=[models.FieldCondition(key="year", match=models.MatchValue(value=2003))])
    for system in ("cosine", "surprise", "auto"):
        found = next(iter(attached.pipeline(system, filter=only).search(QUESTION, 3)))
        assert found.document is not None
        assert "bread" in found.document.text
        assert found.document.metadata == {"year": 2003}
    attached.store_background(varied_questions(40), "cosine")
    assert attached.pipeline("cosine", min_surprise=0.9).search("bread needs flour and water").ids
    attached.enrich()
    assert {"bm25", "dynamax"} <= set(attached.pipeline("auto").search(QUESTION).parts)
    assert attached.remove_enrichment()
    assert len(attached.pipeline("auto").search(QUESTION, 3)) == 3


@pytest.mark.parametrize("distance", [models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN])
def test_vectors_that_are_not_of_length_1_are_compared_as_the_collection_does(
    store: Store, distance: models.Distance
) -> None:
    encoder = WordEncoder()
    store.make(encoder, distance=distance, scale=2.0)

    def embed(texts: list[str]) -> Any:
        return 3 * encoder.encode(texts).dense

    collection = Collection.attach(store.client, store.name, embed=embed)
    query = 3 * encoder.encode([QUESTION]).dense[0]
    vectors = (2 * (1 + np.arange(len(TEXTS)) % 3))[:, None] * encoder.encode(TEXTS).dense
    scores = {
        models.Distance.DOT: vectors @ query,
        models.Distance.EUCLID: -np.linalg.norm(vectors - query, axis=1),
        models.Distance.MANHATTAN: -np.abs(vectors - query).sum(axis=1),
    }[distance]
    ranking = collection.pipeline("cosine").search(QUESTION, 5)
    assert list(ranking.ids) == [str(i) for i in np.argsort(-scores, kind="stable")[:5]]
    assert (np.diff(ranking.scores) <= 0).all()
    assert len(collection.pipeline("fusion").search(QUESTION, 5)) == 5
    assert len(collection.pipeline("surprise").search(QUESTION, 5)) == 5
    if distance != models.Distance.DOT:
        with pytest.raises(DataError, match="choose fusion"):
            collection.pipeline("auto")


def test_an_encoder_of_unit_vectors_is_told_of_where_others_are_compared(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, distance=models.Distance.EUCLID, scale=2.0)
    with pytest.warns(UserWarning, match="unit=False"):
        Collection.attach(local.client, local.name, embed=encoder)


def test_an_enriched_collection_ranks_as_an_index_of_the_same_documents(store: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    store.make(encoder, ids=uuids)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    report = collection.enrich()
    assert str(report).startswith("48 enriched, 0 unchanged")
    with DocumentIndex.open(tmp_path, encoder) as index:
        index.sync([Document(uuids(i), text) for i, text in enumerate(TEXTS)])
        for system in ("auto", "fusion", "dynamax", "bm25"):
            own = index.pipeline(system).search(QUESTION, 10)
            found = collection.pipeline(system).search(QUESTION, 10)
            np.testing.assert_allclose(found.scores, own.scores, rtol=1e-3, atol=1e-3)
            assert found.notes == own.notes


def test_enriching_changes_nothing_of_the_owners_and_can_be_taken_away(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder, words=True, ids=uuids)
    before = store.everything()
    collection = Collection.attach(store.client, store.name, embed=encoder)
    cost = collection.enrich(dry_run=True)
    assert isinstance(cost, EnrichCost)
    assert cost.points == len(TEXTS)
    assert cost.bytes > 0
    collection.enrich()
    assert store.everything() == before
    assert collection.remove_enrichment()
    names = [found.name for found in store.client.get_collections().collections]
    assert [name for name in names if name.startswith(store.name)] == [store.name]
    assert not collection.remove_enrichment()


LONG = [f"{TEXTS[i]} {' '.join(f'more{i * k % 97}' for k in range(1, 200))}" for i in range(24)]


def test_token_vectors_that_are_added_rank_as_those_of_an_index(store: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    store.make(encoder, LONG)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    cost = collection.enrich(dry_run=True)
    assert isinstance(cost, EnrichCost)
    vectors = len(pooled_tokens(encoder.encode(LONG).require_tokens()).norms)
    # Words, hashes and shapes take about as much as token vectors of 16 components.
    assert 32 * vectors < cost.bytes < 32 * vectors + 60_000
    collection.enrich()
    with DocumentIndex.open(tmp_path, encoder, options=IndexOptions(passages=None)) as index:
        index.sync([Document(str(i), text) for i, text in enumerate(LONG)])
        own = index.pipeline("dynamax").search(QUESTION, 24)
    for again in (collection, Collection.attach(store.client, store.name, embed=encoder)):
        found = again.pipeline("dynamax").search(QUESTION, 24)
        assert dict(zip(found.ids, found.scores, strict=True)) == pytest.approx(
            dict(zip(own.ids, own.scores, strict=True)), abs=1e-3
        )
    encoder.encoded_texts.clear()
    assert str(collection.enrich()).startswith("0 enriched, 24 unchanged")
    assert not encoder.encoded_texts


def test_documents_that_are_behind_are_told(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, LONG)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    local.client.set_payload(local.name, {"text": LONG[1]}, [0])
    note = "what was added for 1 of 24 documents is missing or of an earlier text; run sync"
    assert note in collection.pipeline("dynamax").search(QUESTION, 24).notes
    collection.sync()
    found = collection.pipeline("dynamax").search(QUESTION, 24)
    scores = dict(zip(found.ids, found.scores, strict=True))
    assert scores["0"] == pytest.approx(scores["1"], abs=1e-6)
    assert note not in found.notes


def test_what_another_version_has_added_is_named(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, LONG)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    files = collection.enriched.files
    record = json.loads(files.read_file(RECORD) or b"")
    for schema in (1, 4):
        files.write_file(RECORD, json.dumps({**record, "schema": schema}).encode())
        with pytest.raises(DataError, match="enriched by another version; delete its collections"):
            Collection.attach(local.client, local.name, embed=encoder)


@pytest.mark.parametrize("damage", ["AAAA", "***", ""])
def test_damaged_token_vectors_are_named_with_their_document(local: Store, damage: str) -> None:
    encoder = WordEncoder()
    local.make(encoder, LONG)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    local.client.set_payload(f"{local.name}.surprise", {"token_shape": damage}, [7])
    with pytest.raises(DataError, match=r"token vectors of point 7 are damaged"):
        collection.fetch([str(i) for i in range(24)], frozenset({"tokens"}))


class Interrupted(WordEncoder):
    """Is interrupted when it has encoded so many texts."""

    left = 300

    def encode(self, texts: Any, *arguments: Any, **more: Any) -> Any:
        if len(self.encoded_texts) >= self.left:
            raise KeyboardInterrupt
        return super().encode(texts, *arguments, **more)


def test_an_interrupted_run_goes_on_where_it_stopped(store: Store) -> None:
    store.make(WordEncoder(), [f"{TOPICS[i % 4]} number{i}" for i in range(600)])
    with pytest.raises(KeyboardInterrupt):
        Collection.attach(store.client, store.name, embed=Interrupted()).enrich()
    assert store.client.count(f"{store.name}.surprise").count == 512
    encoder = WordEncoder()
    attached = Collection.attach(store.client, store.name, embed=encoder)
    looked_at = len(encoder.encoded_texts)
    assert str(attached.enrich()).startswith("88 enriched, 512 unchanged")
    assert len(encoder.encoded_texts) - looked_at == 88


def test_a_run_that_is_not_finished_is_read_by_nobody(store: Store) -> None:
    store.make(WordEncoder(), [f"{TOPICS[i % 4]} number{i}" for i in range(600)])
    with pytest.raises(KeyboardInterrupt):
        Collection.attach(store.client, store.name, embed=Interrupted()).enrich()
    reader = Collection.attach(store.client, store.name, embed=WordEncoder())
    assert any("not finished" in value for _, value in reader.facts())
    ranking = reader.pipeline().search(QUESTION, 3)
    assert "dynamax" not in ranking.parts
    assert len(ranking) == 3
    assert reader.remove_enrichment()


def test_a_document_may_be_deleted_while_a_question_is_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = WordEncoder()
    store.make(encoder, payload=lambda i, text: {"text": text, "id": f"document {i}"})
    collection = Collection.attach(store.client, store.name, embed=encoder, id="id")
    collection.enrich()
    search, deleted = ForeignPools.best, []

    def best(self: ForeignPools, *searches: Any) -> Any:
        found = search(self, *searches)
        # Words beside the points may find what was deleted before.
        first = next(name for own in found[0].records if (name := f"document {own.id}") not in deleted)
        number = int(first.split()[-1])
        store.client.delete(store.name, models.PointIdsList(points=[number]), wait=True)
        deleted.append(first)
        return found

    monkeypatch.setattr(ForeignPools, "best", best)
    found = collection.pipeline("dynamax").search(QUESTION, 5)
    assert deleted[0] not in found.ids  # nobody can say how much of the question is in it
    for system in ("fusion", "auto", "surprise", "cosine", "bm25"):
        assert len(collection.pipeline(system).search(QUESTION, 5)) == 5
    assert len(found) == 5
    assert len(deleted) == 6


def test_a_killed_run_leaves_no_old_statistics_of_words(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    local.add(encoder, ["bread of rye"], first=100)
    with monkeypatch.context() as patched:
        patched.setattr(Enricher, "_word_statistics", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collection.sync()
    assert collection.sync().enriched == 0
    content = collection.enriched.files.read_file(WORD_STATISTICS)
    assert content is not None
    assert TermStatistics.from_bytes(content).points == len(TEXTS) + 1


def test_words_that_were_added_score_as_an_index_of_ours(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = WordEncoder()
    store.make(encoder)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    reader = Collection.attach(store.client, store.name, embed=encoder)
    collection.enrich(tokens=False)
    reader.reload()
    monkeypatch.setattr("surprise_rerank.connectors.attached.collection._PATIENCE", 0.0)
    known = {str(i): text for i, text in enumerate(TEXTS)}
    for changed in ({}, {"100": "bread of rye", "101": "flour"}, {"7": "rye"}):
        for name, text in changed.items():
            store.add(encoder, [text], first=int(name))
        collection.sync()
        known |= changed
        names = list(known)
        with DocumentIndex.open(":memory:", encoder, options=IndexOptions(passages=None)) as index:
            index.sync([Document(name, text) for name, text in known.items()])
            ours = SparseRetriever(index)
            scores, moments = ours.score(QUESTION, names), ours.moments(QUESTION)
        for asked in (collection, reader):
            words = inputs_of(asked).words
            assert words is not None
            np.testing.assert_allclose(words.score(QUESTION, names), scores, rtol=1e-6)
            found = words.moments(QUESTION)
            np.testing.assert_allclose(found.mean, moments.mean, rtol=1e-6)
            np.testing.assert_allclose(found.deviation, moments.deviation, rtol=1e-6)


def test_a_collection_of_somebody_else_with_the_name_of_the_place_stays(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder)
    other = Store(store.client, f"{store.name}.surprise")
    other.make(encoder, ["my own data"])
    collection = Collection.attach(store.client, store.name, embed=encoder)
    with pytest.raises(DataError, match=r"not made by surprise-rerank.*rename it"):
        collection.enrich()
    assert not collection.remove_enrichment()
    assert len(other.everything()) == 1


class Deleting(WordEncoder):
    """Somebody deletes a point while the first texts are encoded."""

    store: Store

    def encode(self, texts: Any, *arguments: Any, **more: Any) -> Any:
        self.store.client.delete(self.store.name, models.PointIdsList(points=[7]), wait=True)
        return super().encode(texts, *arguments, **more)


def test_a_point_that_is_deleted_while_it_is_enriched_is_left_out(store: Store) -> None:
    store.make(WordEncoder())
    encoder = Deleting()
    encoder.store = store
    collection = Collection.attach(store.client, store.name, embed=encoder)
    collection.enrich()
    assert store.client.count(store.name).count == len(TEXTS) - 1
    assert collection.sync().enriched == 0
    assert "7" not in collection.pipeline("bm25").search("word1 word2 bread stocks", 48).ids


def test_documents_that_another_run_enriched_meanwhile_stay(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    behind = Enricher.planned(collection, tokens=True, words=Bm25())
    assert behind._remove_others({str(i) for i in range(40)}) == 0
    local.client.delete(local.name, models.PointIdsList(points=[41, 42]))
    assert behind._remove_others({str(i) for i in range(40)}) == 2


def test_points_without_a_dense_vector_are_left_out_where_it_is_compared(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, vector="dense")
    local.client.upsert(local.name, [models.PointStruct(id=99, vector={}, payload={"text": "no vector"})])
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    assert collection.sync().enriched == 0
    assert "99" not in collection.pipeline("surprise").search(QUESTION, 49).ids
    assert "99" in collection.pipeline("bm25").search("no vector", 49).ids
    assert len(collection.text_reranker("surprise").rank(QUESTION, TEXTS[:5], ids=[*"01234"])) == 5


def test_a_document_is_found_once_by_any_spelling_of_its_id(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, ids=uuids)
    reranker = Collection.attach(local.client, local.name, embed=encoder).text_reranker("cosine")
    first = uuid.UUID(uuids(1))
    both = reranker.rank(QUESTION, [TEXTS[1], TEXTS[1]], ids=[str(first), first.hex])
    assert sorted(line.position for line in both) == [0, 1]
    either = reranker.rank(QUESTION, [TEXTS[1]], ids=[(first.hex, str(first))])
    assert [line.position for line in either] == [0]


def test_kept_statistics_are_of_the_vectors_and_the_points_that_there_are(
    local: Store, tmp_path: Path
) -> None:
    encoder = WordEncoder()
    params = models.VectorParams(size=16, distance=models.Distance.COSINE)
    local.client.create_collection(local.name, {"a": params, "b": params})
    dense = encoder.encode(TEXTS).dense
    twice = encoder.encode([f"{text} cats cats" for text in TEXTS]).dense
    points = [
        models.PointStruct(
            id=i, vector={"a": dense[i].tolist(), "b": twice[i].tolist()}, payload={"text": text}
        )
        for i, text in enumerate(TEXTS)
    ]
    local.client.upsert(local.name, points)

    def mean(vector: str) -> Any:
        attached = Collection.attach(local.client, local.name, embed=encoder, vector=vector, keep=tmp_path)
        return attached.own_ensemble()

    for vector, of in (("a", dense), ("b", twice)):
        np.testing.assert_allclose(mean(vector).mean, of.mean(axis=0), atol=1e-6)
    local.client.delete(local.name, models.PointIdsList(points=list(range(20))))
    assert mean("a").count == len(TEXTS) - 20


def test_a_background_of_surprise_is_of_its_ensemble(local: Store, caplog: pytest.LogCaptureFixture) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.store_background(varied_questions(40), "surprise")
    assert next(iter(collection.pipeline("surprise").search(QUESTION))).surprise is not None
    collection.set_questions(["where do cats purr", "when did stocks fall", "who barks"])
    assert collection.pipeline("surprise").background is None
    assert "make it again" in caplog.text


def test_questions_of_another_model_are_refused(local: Store) -> None:
    local.make(WordEncoder())
    first = Collection.attach(local.client, local.name, embed=WordEncoder(name="first"), keep="qdrant")
    first.set_questions(["where do cats purr", "when did stocks fall", "who barks"])
    second = Collection.attach(local.client, local.name, embed=WordEncoder(name="second"))
    with pytest.raises(DataError, match=r"encoded by 'first'.*set_questions"):
        second.pipeline("surprise")
    with pytest.raises(DataError, match="a list of strings"):
        second.set_questions("why")


def test_what_was_added_changed_and_deleted_is_found(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    collection.enrich()
    store.add(encoder, ["bread with flour and salt"], first=100)
    store.add(encoder, ["bread of rye"], first=3)
    store.client.delete(store.name, models.PointIdsList(points=[7]), wait=True)
    old = collection.pipeline("bm25").search("bread of rye", 48)
    assert old.notes == ("what was added for 1 of 11 documents is missing or of an earlier text; run sync",)
    behind = collection.pipeline("dynamax").search("bread of rye", 5)
    assert any("is missing or of an earlier text; run sync" in note for note in behind.notes)
    report = collection.sync()
    assert (report.enriched, report.unchanged, report.removed) == (2, 46, 1)
    current = collection.pipeline("dynamax").search("bread of rye", 5)
    assert current.notes == ()
    assert current.ids[0] == "3"
    assert collection.sync().unchanged == 48


def test_a_filter_reaches_every_system(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder, tokens=True)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    collection.enrich()
    only = models.Filter(must=[models.FieldCondition(key="year", match=models.MatchValue(value=2003))])
    for system in ("cosine", "surprise", "bm25", "dynamax", "fusion", "auto"):
        found = collection.pipeline(system, filter=only).search("bread dogs cats stocks", 48)
        assert len(found) > 0
        assert {hit.document.metadata["year"] for hit in found if hit.document} == {2003}, system


def test_multivectors_of_a_model_are_its_tokens(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder, tokens=True)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    found = collection.pipeline("dynamax").search(QUESTION, 48)
    unit = unit_rows(encoder.encode([QUESTION], kind="query").require_tokens()[0])
    texts = [TEXTS[int(name)] for name in found.ids]
    batch = encoder.encode(texts).require_tokens()
    best = [np.maximum((batch.text(i, unit=True) @ unit.T).max(0), 0).mean() for i in range(len(texts))]
    np.testing.assert_allclose(found.scores, best, atol=1e-3)
    other = Collection.attach(store.client, store.name, embed=encoder, token_encoder=WordEncoder(8, "other"))
    assert (
        "note",
        "the multivector 'colbert' has 16 dimensions, the model has 8 dimensions: it is not read",
    ) in (other.facts())
    with pytest.raises(DataError, match="16 dimensions, the model has 8"):
        Collection.attach(
            store.client,
            store.name,
            embed=encoder,
            token_encoder=WordEncoder(8, "other"),
            multivector="colbert",
        )


class Reversed(WordEncoder):
    """Another model of the same dimension."""

    def _words(self, text: str) -> np.ndarray:
        return super()._words(text[::-1])


def only_tokens(store: Store, encoder: WordEncoder, *, words: bool = False) -> None:
    """A collection of multivectors, and sparse vectors if asked, without dense ones."""
    multi = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = models.VectorParams(
        size=encoder.dimension, distance=models.Distance.COSINE, multivector_config=multi
    )
    sparse = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)} if words else None
    store.client.create_collection(store.name, {"colbert": params}, sparse_vectors_config=sparse)
    tokens, terms = encoder.encode(TEXTS).require_tokens(), Bm25().documents(TEXTS)
    points = []
    for i, text in enumerate(TEXTS):
        vector: dict[str, Any] = {"colbert": tokens[i].tolist()}
        if words:
            own = terms[i]
            vector["bm25"] = models.SparseVector(indices=own.indices.tolist(), values=own.values.tolist())
        points.append(models.PointStruct(id=i, vector=vector, payload={"text": text, "year": 2000 + i % 4}))
    store.client.upsert(store.name, points, wait=True)


@pytest.mark.parametrize("words", [False, True])
def test_a_collection_of_multivectors_alone_is_found_by_maxsim(
    store: Store, tmp_path: Path, words: bool
) -> None:
    encoder = WordEncoder()
    only_tokens(store, encoder, words=words)
    papers = Collection.attach(store.client, store.name, token_encoder=encoder, keep=tmp_path)
    assert inputs_of(papers).possible == (["fusion", "bm25", "dynamax"] if words else ["dynamax", "fusion"])
    assert ("dense vector", "none: documents are found by MaxSim") in papers.facts()
    found = papers.pipeline("dynamax").search(QUESTION, len(TEXTS))
    asked = unit_rows(encoder.encode([QUESTION], kind="query").require_tokens()[0])
    batch = encoder.encode([TEXTS[int(name)] for name in found.ids]).require_tokens()
    maxsim = [(batch.text(i, unit=True) @ asked.T).max(0).mean() for i in range(len(TEXTS))]
    np.testing.assert_allclose(found.scores, maxsim, atol=1e-5)
    only = models.Filter(must=[models.FieldCondition(key="year", match=models.MatchValue(value=2003))])
    for system in inputs_of(papers).possible:
        ranking = papers.pipeline(system, filter=only).search("bread needs flour and water")
        assert "bread" in ranking[0].text
        assert {hit.metadata["year"] for hit in ranking} == {2003}
    papers.store_background(varied_questions(40), "dynamax")
    strict = papers.pipeline("dynamax", min_surprise=0.9)
    assert "bread" in strict.search("bread needs flour and water")[0].text
    assert set(papers.pipeline("fusion").search(QUESTION)[0].parts) == {"dynamax", *(["bm25"] * words)}
    texts = papers.text_reranker("dynamax").rank(QUESTION, TEXTS[:4])
    assert "bread" in texts[0].text
    for system in ("cosine", "surprise", "auto"):
        with pytest.raises(DataError, match=f"no dense vectors, which {system} reads; choose one of"):
            papers.pipeline(system)
    with pytest.raises(DataError, match="another model"):
        Collection.attach(store.client, store.name, token_encoder=Reversed())
    with pytest.raises(DataError, match="16 dimensions, the model has 8 dimensions"):
        Collection.attach(store.client, store.name, embed=WordEncoder(8, "other"))
    with pytest.raises(DataError, match="16 dimensions, the model has no token vectors; give the model"):
        Collection.attach(store.client, store.name, embed=lambda texts: encoder.encode(texts).dense)
    assert len(Collection.attach(store.client, store.name)) == len(TEXTS)


def test_words_of_sparse_vectors_have_the_moments_of_all_documents(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder, words=True)
    collection = Collection.attach(store.client, store.name, embed=encoder)
    words = inputs_of(collection).words  # recognised as Qdrant's BM25
    assert words is not None
    scores = words.score(QUESTION, [str(i) for i in range(len(TEXTS))])
    moments = words.moments(QUESTION)
    np.testing.assert_allclose(moments.mean, scores.mean(), rtol=1e-4)
    np.testing.assert_allclose(moments.deviation, scores.std(), rtol=0.05)
    ids, best = words.search(QUESTION, 5)
    np.testing.assert_allclose(best, np.sort(scores)[::-1][:5], rtol=1e-5)
    assert scores[[int(name) for name in ids]].tolist() == pytest.approx(best.tolist())


def test_sparse_vectors_of_a_function_are_read_and_unknown_ones_are_told_of(local: Store) -> None:
    encoder = WordEncoder()
    params = models.VectorParams(size=encoder.dimension, distance=models.Distance.COSINE)
    local.client.create_collection(
        local.name, {"dense": params}, sparse_vectors_config={"splade": models.SparseVectorParams()}
    )
    dense = encoder.encode(TEXTS).dense
    for i, text in enumerate(TEXTS):
        sparse = models.SparseVector(indices=[i % 4, 10 + i % 7], values=[1.5, 0.5])
        point = models.PointStruct(
            id=i, vector={"dense": dense[i].tolist(), "splade": sparse}, payload={"text": text}
        )
        local.client.upsert(local.name, [point])
    unknown = Collection.attach(local.client, local.name, embed=encoder)
    assert any("give sparse=" in value for _, value in unknown.facts())
    known = Collection.attach(
        local.client,
        local.name,
        embed=encoder,
        sparse=lambda text: {"indices": [12, 3], "values": [1.0, 2.0]},
    )
    words = inputs_of(known).words
    assert words is not None
    scores = words.score(QUESTION, [str(i) for i in range(len(TEXTS))])
    expected = [3.0 * (i % 4 == 3) + 0.5 * (i % 7 == 2) for i in range(len(TEXTS))]
    np.testing.assert_allclose(scores, expected)
    np.testing.assert_allclose(words.moments(QUESTION).mean, scores.mean(), rtol=1e-6)
    assert len(known.pipeline("auto").search(QUESTION, 3)) == 3
    with pytest.raises(DataError, match="indices and values"):
        Collection.attach(local.client, local.name, embed=encoder, sparse=lambda text: [1, 2, 3]).pipeline(
            "bm25"
        ).search(QUESTION)


def test_statistics_are_those_of_all_vectors_and_are_kept(store: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    store.make(encoder)

    def attached() -> Collection:
        return Collection.attach(store.client, store.name, embed=encoder, keep=tmp_path)

    found = attached().own_ensemble()
    expected = Ensemble.from_vectors(encoder.encode(TEXTS).dense)
    assert found.count == expected.count
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-6)
    store.add(encoder, ["a new text of bread", "another one"], first=100)
    kept = attached()
    assert kept.own_ensemble().identity == found.identity, "a twentieth more is none"
    kept.refresh()
    anew = Ensemble.from_vectors(encoder.encode([*TEXTS, "a new text of bread", "another one"]).dense)
    np.testing.assert_allclose(kept.own_ensemble().covariance, anew.covariance, atol=1e-6)
    store.add(encoder, TEXTS[:5], first=200)
    assert attached().own_ensemble().count == len(TEXTS) + 7


def test_what_is_kept_is_of_the_vectors_and_not_of_their_names(local: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    texts = [f"{text} other" for text in TEXTS]

    def fill(vector: str, texts: list[str], key: str = "text") -> Collection:
        if local.client.collection_exists(local.name):
            local.client.delete_collection(local.name)
        local.make(encoder, texts, vector=vector, payload=lambda _, text: {key: text})
        return Collection.attach(local.client, local.name, embed=encoder, keep=tmp_path)

    fill("first", TEXTS).store_background(varied_questions(40), "cosine")
    renamed = fill("second", TEXTS, "body")
    assert set(renamed.backgrounds()) == {"cosine"}
    local.client.delete(local.name, models.PointIdsList(points=list(range(40))))
    grown = Collection.attach(local.client, local.name, embed=encoder, keep=tmp_path)
    assert set(grown.backgrounds()) == {"cosine"}
    with pytest.raises(
        IndexMismatchError, match=r"was filled anew: none of the vectors 'first'.*delete that"
    ):
        fill("first", texts)
    assert not fill("third", texts).backgrounds()


def test_statistics_beside_the_collection_are_found_by_everybody(store: Store) -> None:
    encoder = WordEncoder()
    store.make(encoder)
    owner = Collection.attach(store.client, store.name, embed=encoder, keep="qdrant")
    owner.set_questions(["where do cats purr", "when did stocks fall", "who barks"])
    reader = Collection.attach(store.client, store.name, embed=encoder)
    assert reader.ensemble().identity == owner.ensemble().identity
    reader.set_questions([])
    assert reader.ensemble().count == len(TEXTS)
    assert owner.ensemble().count == 3


def test_what_is_kept_stays_when_what_was_added_is_taken_away(store: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    store.make(encoder)
    collection = Collection.attach(store.client, store.name, embed=encoder, keep="qdrant")
    collection.set_questions(["where do cats purr", "when did stocks fall", "who barks"])
    collection.enrich()
    assert collection.remove_enrichment()
    assert Collection.attach(store.client, store.name, embed=encoder).ensemble().count == 3
    assert store.client.collection_exists(f"{store.name}.surprise.files")


def test_collections_that_are_kept_in_one_folder_do_not_share_files(local: Store, tmp_path: Path) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    other = Store(local.client, "other")
    other.make(encoder, TEXTS[:10])
    first, second = (
        Collection.attach(local.client, name, embed=encoder, keep=tmp_path)
        for name in ("foreign", other.name)
    )
    assert first.own_ensemble().count == len(TEXTS)
    assert second.own_ensemble().count == 10


def test_a_threshold_leaves_out_what_other_questions_find_too(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    with pytest.raises(DataError, match="store_background"):
        collection.pipeline("cosine", min_surprise=0.9)
    collection.store_background(varied_questions(40), "cosine")
    found = collection.pipeline("cosine", min_surprise=0.9).search("bread needs flour and water", 48)
    assert 0 < len(found) < 48
    assert {"bread"} <= set((next(iter(found)).text or "").split())
    assert all((hit.surprise or 0) >= 0.9 for hit in found)


def test_a_background_of_other_scorers_is_told_of_and_never_mixed(
    local: Store, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = WordEncoder()
    local.make(encoder)
    collection = Collection.attach(local.client, local.name, embed=encoder, keep="qdrant")
    collection.store_background(varied_questions(40), "auto")
    assert next(iter(collection.pipeline("auto").search(QUESTION))).surprise is not None
    collection.enrich()
    assert next(iter(collection.pipeline("auto").search(QUESTION))).surprise is None
    assert "has another model or other scorers now" in caplog.text
    with pytest.raises(DataError, match="make it again"):
        collection.pipeline("auto", min_surprise=0.9)


def test_stored_texts_are_not_encoded_again_by_a_text_reranker(local: Store) -> None:
    encoder = WordEncoder()
    local.make(encoder, ids=uuids)
    collection = Collection.attach(local.client, local.name, embed=encoder)
    collection.enrich()
    reranker = collection.text_reranker()
    encoder.encoded_texts.clear()
    ids = [uuid.UUID(uuids(i)).hex for i in range(8)]  # as LangChain writes them
    ranked = reranker.rank(QUESTION, TEXTS[:8], ids=ids)
    assert encoder.encoded_texts == [QUESTION]
    assert len(ranked) == 8
    with pytest.raises(DataError, match="ranks inside Qdrant"):
        collection.text_reranker("bm25")


def test_dense_vectors_of_a_function_and_tokens_of_a_model(store: Store) -> None:
    words, tokens = WordEncoder(24, "api"), WordEncoder(16, "tokens")
    store.make(words)
    api = FunctionEncoder(lambda texts: words.encode(texts).dense, name="api")
    collection = Collection.attach(store.client, store.name, embed=api, token_encoder=tokens)
    with pytest.raises(DataError, match="enrich"):
        collection.pipeline("dynamax")
    collection.enrich()
    ranking = collection.pipeline("auto").search(QUESTION, 3)
    assert set(ranking.parts) == {"bm25", "cosine", "dynamax", "words", "vectors"}
    with pytest.raises(IndexMismatchError, match="'tokens'"):
        Collection.attach(store.client, store.name, embed=api, token_encoder=WordEncoder(16, "other"))


def test_without_a_model_of_tokens_those_that_were_added_are_left_out(local: Store) -> None:
    words = WordEncoder(24, "api")
    local.make(words)
    Collection.attach(local.client, local.name, token_encoder=WordEncoder(16, "tokens")).enrich()
    api = FunctionEncoder(lambda texts: words.encode(texts).dense, name="api")
    collection = Collection.attach(local.client, local.name, embed=api)
    ranking = collection.pipeline("auto").search(QUESTION, 3)
    assert "dynamax" not in ranking.parts
    assert any("without token vectors" in note for note in ranking.notes)
    assert any("of 'tokens'; attach it with that model" in value for _, value in collection.facts())
    with pytest.raises(DataError, match="of 'tokens'; attach it with that model as token_encoder="):
        collection.pipeline("dynamax")
    with pytest.raises(DataError, match="has no token vectors; give"):
        collection.enrich()


def test_an_async_client_of_a_server_is_read(rest: QdrantRest) -> None:
    store = Store(QdrantClient(rest.url, check_compatibility=False), f"foreign-{uuid.uuid4()}")
    encoder = WordEncoder()
    store.make(encoder)
    client = AsyncQdrantClient(rest.url, check_compatibility=False)
    with Collection.attach(client, store.name, embed=encoder) as collection:
        assert len(collection.pipeline().search(QUESTION, 3)) == 3
    store.client.close()


class TestErrors:
    """Each names what was given, what is there, and what to do."""

    def refused(self, store: Store, match: str, kind: type[Exception] = DataError, **settings: Any) -> None:
        settings.setdefault("embed", WordEncoder())
        with pytest.raises(kind, match=match):
            Collection.attach(store.client, store.name, **settings)

    def test_another_dimension(self, local: Store) -> None:
        local.make(WordEncoder())
        self.refused(local, "has 16 dimensions, the model's have 24", embed=WordEncoder(24))

    def test_another_vector(self, local: Store) -> None:
        local.make(WordEncoder(), vector="dense_text")
        self.refused(local, "did you mean 'dense_text'", vector="dense_txt")

    def test_several_vectors(self, local: Store) -> None:
        params = models.VectorParams(size=16, distance=models.Distance.COSINE)
        local.client.create_collection(local.name, {"a": params, "b": params})
        self.refused(local, "'a', 'b'; name one with vector=")

    def test_the_only_one_of_the_models_dimension_needs_no_name(self, local: Store) -> None:
        params = [models.VectorParams(size=d, distance=models.Distance.COSINE) for d in (16, 8)]
        local.client.create_collection(local.name, {"a": params[0], "b": params[1]})
        point = models.PointStruct(id=1, vector={"a": [1.0] * 16, "b": [1.0] * 8}, payload={"text": "x"})
        local.client.upsert(local.name, [point])
        assert Collection.attach(local.client, local.name, embed=WordEncoder()).vectors.dense == "a"

    def test_no_key_of_a_text(self, local: Store) -> None:
        local.make(WordEncoder(), payload=lambda i, text: {"inhalt": text, "year": i})
        self.refused(local, r"inhalt, year; the longest texts are in 'inhalt'.*text=")
        found = Collection.attach(local.client, local.name, embed=WordEncoder(), text="inhalt")
        assert found.pipeline().search(QUESTION, 1).documents[0].metadata.keys() == {"year"}  # type: ignore[index]

    def test_a_key_that_is_nowhere(self, local: Store) -> None:
        local.make(WordEncoder())
        self.refused(
            local,
            "none of 48 points looked at has the key 'txt' for the text; did you mean 'text'",
            text="txt",
        )

    def test_an_id_that_several_points_share(self, local: Store) -> None:
        local.make(WordEncoder(), payload=lambda i, text: {"text": text, "doc": f"d{i // 2}"})
        self.refused(local, "several points have the id 'd0' in 'doc'", id="doc")

    def test_mixed_payloads(self, local: Store) -> None:
        encoder = WordEncoder()
        local.make(encoder, payload=lambda i, text: {("text", "content", "other")[i % 3]: text, "n": i})
        collection = Collection.attach(local.client, local.name, embed=encoder)
        assert ("text", "text, else content; 16 of 48 points looked at have none") in collection.facts()
        texts = {hit.text for hit in collection.pipeline().search(QUESTION, 48)}
        assert texts == {"", *(text for i, text in enumerate(TEXTS) if i % 3 < 2)}

    def test_no_points(self, local: Store) -> None:
        params = models.VectorParams(size=16, distance=models.Distance.COSINE)
        local.client.create_collection(local.name, params)
        self.refused(local, "is empty")

    def test_points_without_vectors(self, local: Store) -> None:
        params = models.VectorParams(size=16, distance=models.Distance.COSINE)
        local.client.create_collection(local.name, {"dense": params})
        local.client.upsert(local.name, [models.PointStruct(id=1, vector={}, payload={"text": "a"})])
        self.refused(local, "none of 1 points looked at has the vector 'dense'")

    def test_no_dense_vector_at_all(self, local: Store) -> None:
        local.client.create_collection(
            local.name, {}, sparse_vectors_config={"s": models.SparseVectorParams()}
        )
        self.refused(local, "no dense vectors and no multivectors.*it has 's'")

    def test_no_such_collection(self, local: Store) -> None:
        local.make(WordEncoder())
        with pytest.raises(StoreError, match="no collection 'foreing'; did you mean 'foreign'"):
            Collection.attach(local.client, "foreing", embed=WordEncoder())

    def test_an_index_of_ours(self, rest: QdrantRest) -> None:
        name = f"own-{uuid.uuid4()}"
        with DocumentIndex.open(None, WordEncoder(), url=rest.url, collection=name) as index:
            index.sync([Document("1", "a")])
        with pytest.raises(IndexMismatchError, match=r"DocumentIndex\.open"):
            Collection.attach(rest.url, name, embed=WordEncoder())

    def test_a_foreign_collection_where_an_index_is_asked_for(self, rest: QdrantRest) -> None:
        store = Store(QdrantClient(rest.url, check_compatibility=False), f"foreign-{uuid.uuid4()}")
        store.make(WordEncoder())
        with pytest.raises(ForeignCollectionError, match=r"Collection\.attach"):
            DocumentIndex.open(None, WordEncoder(), url=rest.url, collection=store.name)
        store.client.close()

    def test_an_async_client_in_this_process(self) -> None:
        with pytest.raises(DataError, match="event loop; give a QdrantClient"):
            Collection.attach(AsyncQdrantClient(":memory:"), "papers")

    def test_something_else_than_a_client(self) -> None:
        with pytest.raises(DataError, match=r"got dict.*SurpriseRerank\.attach"):
            Collection.attach({}, "papers", embed=WordEncoder())  # type: ignore[arg-type]

    def test_a_collection_that_is_deleted_under_way(self, store: Store) -> None:
        encoder = WordEncoder()
        store.make(encoder)
        collection = Collection.attach(store.client, store.name, embed=encoder)
        pipeline = collection.pipeline("cosine")
        store.client.delete_collection(store.name)
        with pytest.raises(StoreError, match="does not exist any more"):
            pipeline.search(QUESTION)

    def test_a_key_that_may_only_read(self, rest: QdrantRest) -> None:
        store = Store(QdrantClient(rest.url, check_compatibility=False), f"foreign-{uuid.uuid4()}")
        encoder = WordEncoder()
        store.make(encoder)
        collection = Collection.attach(rest.url, store.name, embed=encoder)
        rest.fault("PUT", f"/collections/{store.name}.surprise", Status(403, "read-only access"), times=1)
        with pytest.raises(StoreError, match="refuses access"):
            collection.enrich()
        assert len(collection.pipeline().search(QUESTION, 3)) == 3
        collection.close()
        store.client.close()

    @pytest.mark.parametrize(
        ("answer", "match"),
        [
            (lambda texts: [[float("nan")] * 16 for _ in texts], "NaN"),
            (lambda texts: [[1.0] * 16] * (len(texts) + 1), "6 vectors"),
            (lambda texts: [], "0 vectors"),
        ],
    )
    def test_a_function_that_answers_wrongly(
        self, local: Store, answer: Callable[[list[str]], Any], match: str
    ) -> None:
        encoder = WordEncoder()
        local.make(encoder)
        asked = FunctionEncoder(answer, name="api", dimension=16)
        with pytest.raises(DataError, match=match):
            Collection.attach(local.client, local.name, embed=asked).pipeline("cosine").search(QUESTION)

    def test_a_function_that_always_fails(self, local: Store) -> None:
        local.make(WordEncoder())

        def fail(texts: list[str]) -> Any:
            raise ConnectionError("no route to the model")

        asked = FunctionEncoder(fail, name="api", dimension=16, attempts=2)
        with pytest.raises(ModelError, match="no route to the model"):
            Collection.attach(local.client, local.name, embed=asked).pipeline("cosine").search(QUESTION)

    def test_nothing_to_add_and_something_else_than_before(self, local: Store) -> None:
        encoder = WordEncoder()
        local.make(encoder)
        collection = Collection.attach(local.client, local.name, embed=encoder)
        with pytest.raises(DataError, match="nothing to add"):
            collection.enrich(tokens=False, words=False)
        collection.enrich()
        with pytest.raises(DataError, match="enriched otherwise before"):
            collection.enrich(tokens=False)

    def test_an_unknown_system_and_one_of_an_index(self, local: Store) -> None:
        encoder = WordEncoder()
        local.make(encoder)
        collection = Collection.attach(local.client, local.name, embed=encoder)
        with pytest.raises(DataError, match="did you mean 'auto'"):
            collection.pipeline("atuo")
        with pytest.raises(DataError, match="has no token vectors"):
            collection.pipeline("dynamax")

    def test_a_question_without_a_model(self, local: Store) -> None:
        local.make(WordEncoder())
        collection = Collection.attach(local.client, local.name)
        with pytest.raises(DataError, match="give embed="):
            collection.pipeline("cosine")


def test_what_is_found_is_told_without_a_model(store: Store) -> None:
    store.make(WordEncoder(), words=True)
    with Collection.attach(store.client, store.name) as found:
        facts = dict(found.facts())
    assert facts["points"] == "48"
    assert facts["dense vector"] == "'dense', 16 dimensions, Cosine"
    assert facts["sparse vector"] == "'bm25', with Qdrant's IDF"
    assert (facts["text"], facts["metadata"], facts["enriched"]) == ("text", "all other keys", "no")
