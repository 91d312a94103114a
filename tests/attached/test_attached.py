"""Collections that somebody else made: the same behaviour in local mode and on a server."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.faults import Status, cleaned, server_url
from helpers.words import Acting, WordEncoder, interrupted
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from surprise_rerank import (
    DataError,
    Document,
    Ensemble,
    FunctionEncoder,
    IndexMismatchError,
    ModelError,
    StoreError,
)
from surprise_rerank._errors import ForeignCollectionError
from surprise_rerank.connectors.attached import Collection, EnrichCost
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions, SparseRetriever
from surprise_rerank.connectors.systems._building import possible_systems
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.thresholds.varied_questions import varied_questions

pytestmark = [pytest.mark.filterwarnings("ignore:Payload indexes:UserWarning")]

TOPICS = ("cats purr on mats", "dogs bark at night", "stocks fell on monday", "bread needs flour and water")
TEXTS = [
    f"{topic} {' '.join(f'word{i * k % 29}' for k in range(1, 9))}" for i in range(12) for topic in TOPICS
]
LONG = [f"{TEXTS[i]} {' '.join(f'more{i * k % 97}' for k in range(1, 200))}" for i in range(24)]
MANY = [f"{TOPICS[i % 4]} number{i}" for i in range(600)]
QUESTION = "which bread needs flour"
LOGGED = ["where do cats purr", "when did stocks fall", "who barks"]
COSINE = models.Distance.COSINE
MAX_SIM = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
ONLY = models.Filter(must=[models.FieldCondition(key="year", match=models.MatchValue(value=2003))])


def sparse(indices: Any, values: Any) -> models.SparseVector:
    return models.SparseVector(indices=np.asarray(indices).tolist(), values=np.asarray(values).tolist())


def with_year(i: int, text: str) -> dict[str, Any]:
    return {"text": text, "year": 2000 + i % 4}


class Store:
    """A Qdrant, and a name for a collection in it."""

    def __init__(self, client: QdrantClient, name: str) -> None:
        self.client, self.name = client, name
        self.shape: dict[str, Any] = {}

    def make(
        self,
        encoder: WordEncoder,
        texts: Sequence[str] = TEXTS,
        *,
        distance: models.Distance = COSINE,
        vector: str | None = "",
        words: bool = False,
        tokens: bool = False,
        **how: Any,
    ) -> None:
        """A collection of texts; of token vectors alone, where vector is None."""
        params = models.VectorParams(size=encoder.dimension, distance=distance)
        several = {} if vector is None else {vector or "dense": params}
        if tokens:
            several["colbert"] = models.VectorParams(
                size=encoder.dimension, distance=COSINE, multivector_config=MAX_SIM
            )
        self.shape = {"vector": vector, "words": words, "tokens": tokens, **how}
        named = several if vector or words or tokens else params
        kept = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)} if words else None
        self.client.create_collection(self.name, named, sparse_vectors_config=kept)
        self.add(encoder, texts)

    def add(self, encoder: WordEncoder, texts: Sequence[str], first: int = 0) -> None:
        """More texts of the same shape."""
        how, encoded, points = self.shape, encoder.encode(texts), []
        vector, scale = how["vector"], how.get("scale", 1.0)
        for i, text in enumerate(texts):
            dense = ((scale * (1 + i % 3) if scale != 1 else 1) * encoded.dense[i]).tolist()
            vectors: dict[str, Any] = {} if vector is None else {vector or "dense": dense}
            if how["words"]:
                own = Bm25().documents([text])[0]
                vectors["bm25"] = sparse(own.indices, own.values)
            if how["tokens"]:
                vectors["colbert"] = encoded.require_tokens()[i].tolist()
            whole: Any = vectors if vector or how["words"] or how["tokens"] else dense
            payload = how.get("payload", with_year)(first + i, text)
            points.append(
                models.PointStruct(id=how.get("ids", int)(first + i), vector=whole, payload=payload)
            )
        self.client.upsert(self.name, points, wait=True)

    def delete(self, *points: int) -> None:
        self.client.delete(self.name, models.PointIdsList(points=list(points)), wait=True)

    def attach(self, embed: Any, **settings: Any) -> Collection:
        return Collection.attach(self.client, self.name, embed=embed, **settings)

    def everything(self) -> list[models.Record]:
        return self.client.scroll(self.name, limit=1000, with_payload=True, with_vectors=True)[0]


def uuids(i: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, str(i)))


@pytest.fixture(params=["local", pytest.param("server", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "local":
        yield request.getfixturevalue("local")
        return
    name = f"foreign-{uuid.uuid4()}"
    with cleaned(server_url(), name) as client:
        yield Store(client, name)


@pytest.fixture
def local() -> Store:
    return Store(QdrantClient(":memory:"), "foreign")


SHAPES: dict[str, dict[str, Any]] = {
    "unnamed cosine, numbers": {},
    "named dot, UUIDs": {"vector": "mine", "distance": models.Distance.DOT, "ids": uuids},
    "euclid of unit vectors": {"distance": models.Distance.EUCLID},
    "sparse vectors beside": {"words": True},
    "multivectors beside": {"tokens": True, "ids": uuids},
    "1536 dimensions of a function": {},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_collection_of_any_shape_is_ranked_as_it_is(store, tmp_path, shape):
    own, tokens = WordEncoder(1536 if "1536" in shape else 16), WordEncoder(16, "tokens")
    store.make(own, **SHAPES[shape])
    function = FunctionEncoder(lambda texts: own.encode(texts).dense, name="api")
    model, more = (function, {"token_encoder": tokens}) if "1536" in shape else (own, {})
    collection = store.attach(model, keep=tmp_path, **more)
    query = own.encode([QUESTION]).dense[0]
    expected = np.argsort(-(own.encode(TEXTS).dense @ query), kind="stable")[:5]
    own.encoded_texts.clear()
    ranking = collection.pipeline("cosine").search(QUESTION, 5)
    assert [hit.text for hit in ranking] == [TEXTS[i] for i in expected]
    assert ranking[0].metadata == {"year": 2000 + int(expected[0]) % 4}
    for system in ("auto", "fusion", "surprise", None):
        found = collection.pipeline(system).search(QUESTION, 5)
        assert len(found) == 5
        assert "bread" in found[0].text
        (year,) = {hit.metadata["year"] for hit in collection.pipeline(system, filter=ONLY).search(QUESTION)}
        assert year == 2003
    assert set(own.encoded_texts) == {QUESTION}
    collection.measure_background("cosine", varied_questions(40))
    assert collection.pipeline("cosine", min_percentile=0.9).search("bread needs flour and water").ids
    collection.enrich()
    assert {"bm25", "dynamax"} <= set(collection.pipeline("auto").search(QUESTION).parts)
    for system in ("auto", "bm25", "dynamax"):
        found = collection.pipeline(system, filter=ONLY).search("bread dogs cats stocks", 48)
        assert {hit.metadata["year"] for hit in found} == {2003}, system
    assert collection.remove_enrichment()
    assert len(collection.pipeline("auto").search(QUESTION, 3)) == 3


@pytest.mark.parametrize("distance", [models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN])
def test_vectors_that_are_not_of_length_1_are_compared_as_the_collection_does(store, distance):
    encoder = WordEncoder()
    store.make(encoder, distance=distance, scale=2.0)
    collection = store.attach(lambda texts: 3 * encoder.encode(texts).dense)
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
    fusion = collection.pipeline("fusion").search(QUESTION, 5)  # of these vectors alone, so by them
    assert fusion.ids == ranking.ids
    assert len(set(fusion.scores)) == 5
    assert len(collection.pipeline("surprise").search(QUESTION, 5)) == 5
    if distance != models.Distance.DOT:
        with pytest.raises(DataError, match="choose fusion"):
            collection.pipeline("auto")
        with pytest.warns(UserWarning, match="unit=False"):
            store.attach(encoder)


def test_enriched_it_ranks_as_an_index_and_nothing_of_the_owners_changes(store, tmp_path):
    encoder = WordEncoder()
    store.make(encoder, LONG, words=True, ids=uuids)
    before = store.everything()
    collection = store.attach(encoder)
    cost = collection.enrich(dry_run=True)
    assert isinstance(cost, EnrichCost)
    assert cost.points == len(LONG)
    vectors = len(pooled_tokens(encoder.encode(LONG).require_tokens()).norms)
    # Words, hashes and shapes take about as much as token vectors of 16 components.
    assert 32 * vectors < cost.bytes < 32 * vectors + 60_000
    assert str(collection.enrich()).startswith("24 added, 0 updated, 0 unchanged")
    assert store.everything() == before
    again = store.attach(encoder)
    with DocumentIndex.open(tmp_path, encoder, options=IndexOptions(passages=None)) as index:
        index.sync([Document(uuids(i), text) for i, text in enumerate(LONG)])
        for system in ("auto", "fusion", "dynamax", "bm25"):
            own = index.pipeline(system).search(QUESTION, 24)
            for asked in (collection, again):
                found = asked.pipeline(system).search(QUESTION, 24)
                np.testing.assert_allclose(found.scores, own.scores, rtol=1e-3, atol=1e-3)
                assert found.notes == own.notes
    encoder.encoded_texts.clear()
    assert str(again.enrich()).startswith("0 added, 0 updated, 24 unchanged")
    assert not encoder.encoded_texts
    assert collection.remove_enrichment()
    names = [found.name for found in store.client.get_collections().collections]
    assert [name for name in names if name.startswith(store.name)] == [store.name]
    assert not collection.remove_enrichment()


def test_an_interrupted_run_is_read_by_nobody_and_goes_on_where_it_stopped(store):
    store.make(WordEncoder(), MANY)
    with pytest.raises(KeyboardInterrupt):
        store.attach(interrupted(300)).enrich()
    assert store.client.count(f"{store.name}.surprise").count == 384
    encoder = WordEncoder()
    reader = store.attach(encoder)
    assert any("not finished" in value for _, value in reader.status().facts())
    assert "dynamax" not in reader.pipeline().search(QUESTION, 3).parts
    looked_at = len(encoder.encoded_texts)
    assert str(reader.enrich()).startswith("216 added, 0 updated, 384 unchanged")
    assert len(encoder.encoded_texts) - looked_at == 216
    assert "dynamax" in reader.pipeline().search(QUESTION, 3).parts


def test_words_that_were_added_score_as_an_index_of_ours(store, monkeypatch):
    encoder = WordEncoder()
    store.make(encoder)
    collection, reader = store.attach(encoder), store.attach(encoder)
    collection.enrich(tokens=False)
    reader.corpus.reload()
    monkeypatch.setattr("surprise_rerank.connectors.qdrant._writing.kept_terms._PATIENCE", 0.0)
    known = {str(i): text for i, text in enumerate(TEXTS)}
    for changed in ({}, {"100": "bread of rye", "101": "flour"}, {"7": "rye"}):
        for name, text in changed.items():
            store.add(encoder, [text], first=int(name))
        collection.sync()
        known |= changed
        names = list(known)
        with DocumentIndex.open(":memory:", encoder, options=IndexOptions(passages=None)) as index:
            index.sync([Document(name, text) for name, text in known.items()])
            ours = SparseRetriever(index.corpus)
            scores, moments = ours.score(QUESTION, names), ours.moments(QUESTION)
        for words in (SparseRetriever(collection.corpus), SparseRetriever(reader.corpus)):
            np.testing.assert_allclose(words.score(QUESTION, names), scores, rtol=1e-6)
            found = words.moments(QUESTION)
            np.testing.assert_allclose(found.mean, moments.mean, rtol=1e-6)
            np.testing.assert_allclose(found.deviation, moments.deviation, rtol=1e-6)


def test_a_collection_of_somebody_else_with_the_name_of_the_place_stays(store):
    encoder = WordEncoder()
    store.make(encoder)
    other = Store(store.client, f"{store.name}.surprise")
    other.make(encoder, ["my own data"])
    collection = store.attach(encoder)
    with pytest.raises(DataError, match=r"not made by surprise-rerank.*rename it"):
        collection.enrich()
    assert not collection.remove_enrichment()
    assert len(other.everything()) == 1


def test_without_a_model_of_questions_it_is_enriched_and_has_no_background(local, monkeypatch):
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    local.make(WordEncoder())
    with Collection.attach(local.client, local.name, token_encoder=WordEncoder()) as collection:
        assert collection.enrich().added == len(TEXTS)
        assert collection.sync().added == 0
        assert not collection.backgrounds()


def test_a_point_that_is_deleted_while_it_is_enriched_is_left_out(store):
    store.make(WordEncoder())
    encoder = Acting()
    collection = store.attach(encoder)
    encoder.act = lambda: store.delete(7)
    collection.enrich()
    assert store.client.count(store.name).count == len(TEXTS) - 1
    assert collection.sync().added == 0
    assert "7" not in collection.pipeline("bm25").search("word1 word2 bread stocks", 48).ids


def test_points_without_a_dense_vector_are_left_out_where_it_is_compared(local):
    encoder = WordEncoder()
    local.make(encoder, vector="dense")
    local.client.upsert(local.name, [models.PointStruct(id=99, vector={}, payload={"text": "no vector"})])
    collection = local.attach(encoder)
    collection.enrich()
    assert collection.sync().added == 0
    assert "99" not in collection.pipeline("surprise").search(QUESTION, 49).ids
    assert "99" in collection.pipeline("bm25").search("no vector", 49).ids
    assert len(collection.text_reranker("surprise").rank(QUESTION, TEXTS[:5], ids=[*"01234"])) == 5


def test_what_was_added_changed_and_deleted_is_found(store):
    encoder = WordEncoder()
    store.make(encoder)
    collection = store.attach(encoder)
    collection.enrich()
    store.add(encoder, ["bread with flour and salt"], first=100)
    store.add(encoder, ["bread of rye"], first=3)
    store.delete(7)
    old = collection.pipeline("bm25").search("bread of rye", 48)
    assert old.notes == ("what was added for 1 of 11 documents is missing or of an earlier text; run sync",)
    behind = collection.pipeline("dynamax").search("bread of rye", 5)
    assert any("is missing or of an earlier text; run sync" in note for note in behind.notes)
    report = collection.sync()
    assert (report.added, report.updated, report.unchanged, report.removed) == (1, 1, 46, 1)
    current = collection.pipeline("dynamax").search("bread of rye", 5)
    assert current.notes == ()
    assert current.ids[0] == "3"
    assert collection.sync().unchanged == 48
    store.delete(*(record.id for record in store.everything()))
    assert collection.sync().removed == 48


def test_multivectors_of_a_model_are_its_tokens(store):
    encoder = WordEncoder()
    store.make(encoder, tokens=True)
    found = store.attach(encoder).pipeline("dynamax").search(QUESTION, 48)
    np.testing.assert_allclose(found.scores, inclusions(encoder, found.ids), atol=1e-3)
    other = WordEncoder(8, "other")
    problem = "the multivector 'colbert' has 16 dimensions, the model has 8 dimensions"
    assert f"{problem}: it is not read" in store.attach(encoder, token_encoder=other).status().notes
    with pytest.raises(DataError, match="16 dimensions, the model has 8"):
        store.attach(encoder, token_encoder=other, multivector="colbert")


def inclusions(encoder: WordEncoder, ids: Sequence[str]) -> list[float]:
    """By the definition."""
    asked = unit_rows(encoder.encode([QUESTION], kind="query").require_tokens()[0])
    batch = encoder.encode([TEXTS[int(name)] for name in ids]).require_tokens()
    return [np.maximum((batch.text(i, unit=True) @ asked.T).max(0), 0).mean() for i in range(len(ids))]


class Reversed(WordEncoder):
    """Another model of the same dimension."""

    def _words(self, text: str) -> np.ndarray:
        return super()._words(text[::-1])


@pytest.mark.parametrize("words", [False, True])
def test_a_collection_of_multivectors_alone_is_found_by_maxsim(store, tmp_path, words):
    encoder = WordEncoder()
    store.make(encoder, vector=None, tokens=True, words=words)
    papers = store.attach(None, token_encoder=encoder, keep=tmp_path)
    assert set(possible_systems(papers.corpus)) == {"fusion", "dynamax", *(["bm25"] * words)}
    assert ("dense vector", "none: documents are found by MaxSim") in papers.status().facts()
    found = papers.pipeline("dynamax").search(QUESTION, len(TEXTS))
    np.testing.assert_allclose(found.scores, inclusions(encoder, found.ids), atol=1e-5)
    for system in possible_systems(papers.corpus):
        ranking = papers.pipeline(system, filter=ONLY).search("bread needs flour and water")
        assert "bread" in ranking[0].text
        assert {hit.metadata["year"] for hit in ranking} == {2003}
    papers.measure_background("dynamax", varied_questions(40))
    strict = papers.pipeline("dynamax", min_percentile=0.9)
    assert "bread" in strict.search("bread needs flour and water")[0].text
    assert set(papers.pipeline("fusion").search(QUESTION)[0].parts) == {"dynamax", *(["bm25"] * words)}
    assert "bread" in papers.text_reranker("dynamax").rank(QUESTION, TEXTS[:4])[0].text
    for system in ("cosine", "surprise", "auto"):
        with pytest.raises(DataError, match=f"no dense vectors, which {system} reads; choose one of"):
            papers.pipeline(system)
    with pytest.raises(DataError, match="another model"):
        store.attach(None, token_encoder=Reversed())
    with pytest.raises(DataError, match="16 dimensions, the model has 8 dimensions"):
        store.attach(WordEncoder(8, "other"))
    with pytest.raises(DataError, match="16 dimensions, the model has no token vectors; give the model"):
        store.attach(lambda texts: encoder.encode(texts).dense)
    assert len(store.attach(None)) == len(TEXTS)


def test_words_of_sparse_vectors_have_the_moments_of_all_documents(store):
    encoder = WordEncoder()
    store.make(encoder, words=True)
    words = SparseRetriever(store.attach(encoder).corpus)  # recognised as Qdrant's BM25
    scores = words.score(QUESTION, [str(i) for i in range(len(TEXTS))])
    moments = words.moments(QUESTION)
    np.testing.assert_allclose(moments.mean, scores.mean(), rtol=1e-4)
    np.testing.assert_allclose(moments.deviation, scores.std(), rtol=0.05)
    ids, best = words.search(QUESTION, 5)
    np.testing.assert_allclose(best, np.sort(scores)[::-1][:5], rtol=1e-5)
    assert scores[[int(name) for name in ids]].tolist() == pytest.approx(best.tolist())


def test_sparse_vectors_of_a_function_are_read_and_unknown_ones_are_told_of(local):
    encoder = WordEncoder()
    params = {"dense": models.VectorParams(size=encoder.dimension, distance=COSINE)}
    local.client.create_collection(
        local.name, params, sparse_vectors_config={"splade": models.SparseVectorParams()}
    )
    for i, dense in enumerate(encoder.encode(TEXTS).dense.tolist()):
        vectors: Any = {"dense": dense, "splade": sparse([i % 4, 10 + i % 7], [1.5, 0.5])}
        local.client.upsert(
            local.name, [models.PointStruct(id=i, vector=vectors, payload={"text": TEXTS[i]})]
        )
    assert any("give sparse=" in value for _, value in local.attach(encoder).status().facts())
    known = local.attach(encoder, sparse=lambda text: {"indices": [12, 3], "values": [1.0, 2.0]})
    words = SparseRetriever(known.corpus)
    scores = words.score(QUESTION, [str(i) for i in range(len(TEXTS))])
    np.testing.assert_allclose(scores, [3.0 * (i % 4 == 3) + 0.5 * (i % 7 == 2) for i in range(len(TEXTS))])
    np.testing.assert_allclose(words.moments(QUESTION).mean, scores.mean(), rtol=1e-6)
    assert len(known.pipeline("auto").search(QUESTION, 3)) == 3


def test_statistics_are_those_of_all_vectors_and_are_kept(store, tmp_path):
    encoder = WordEncoder()
    store.make(encoder)
    found = store.attach(encoder, keep=tmp_path).ensemble()
    expected = Ensemble.from_vectors(encoder.encode(TEXTS).dense)
    assert found.count == expected.count
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-6)
    store.add(encoder, ["a new text of bread", "another one"], first=100)
    kept = store.attach(encoder, keep=tmp_path)
    assert kept.ensemble().identity == found.identity, "a twentieth more is none"
    kept.corpus.refresh()
    anew = Ensemble.from_vectors(encoder.encode([*TEXTS, "a new text of bread", "another one"]).dense)
    np.testing.assert_allclose(kept.ensemble().covariance, anew.covariance, atol=1e-6)
    store.add(encoder, TEXTS[:5], first=200)
    assert store.attach(encoder, keep=tmp_path).ensemble().count == len(TEXTS) + 7


def test_what_is_kept_is_of_the_vectors_and_not_of_their_names(local, tmp_path):
    encoder = WordEncoder()
    other = [f"{text} other" for text in TEXTS]

    def fill(vector: str, texts: list[str], key: str = "text") -> Collection:
        if local.client.collection_exists(local.name):
            local.client.delete_collection(local.name)
        local.make(encoder, texts, vector=vector, payload=lambda _, text: {key: text})
        return local.attach(encoder, keep=tmp_path)

    fill("first", TEXTS).measure_background("cosine", varied_questions(40))
    renamed = fill("second", TEXTS, "body")
    assert set(renamed.backgrounds()) == {"cosine"}
    local.delete(*range(40))
    assert set(local.attach(encoder, keep=tmp_path).backgrounds()) == {"cosine"}
    with pytest.raises(IndexMismatchError, match=r"filled anew: none of the vectors 'first'.*delete that"):
        fill("first", other)
    assert not fill("third", other).backgrounds()
    second = Store(local.client, "second")  # in one folder with the other
    second.make(encoder, TEXTS[:10])
    assert second.attach(encoder, keep=tmp_path).ensemble().count == 10


def test_what_is_kept_beside_the_collection_is_found_by_everybody(store):
    encoder = WordEncoder()
    store.make(encoder)
    owner = store.attach(encoder, keep="qdrant")
    owner.set_questions(LOGGED)
    owner.enrich()
    assert owner.remove_enrichment()
    reader = store.attach(encoder)
    assert reader.ensemble().identity == owner.ensemble().identity
    reader.set_questions([])
    assert reader.ensemble().count == len(TEXTS)
    assert owner.ensemble().count == 3
    with pytest.raises(DataError, match=r"encoded by 'words'.*set_questions"):
        store.attach(WordEncoder(name="second")).pipeline("surprise")
    with pytest.raises(DataError, match="a list of strings"):
        owner.set_questions("why")


def test_stored_texts_are_not_encoded_again_by_any_spelling_of_their_ids(local):
    encoder = WordEncoder()
    local.make(encoder, ids=uuids)
    collection = local.attach(encoder)
    collection.enrich()
    reranker = collection.text_reranker()
    encoder.encoded_texts.clear()
    ids = [uuid.UUID(uuids(i)).hex for i in range(8)]  # as LangChain writes them
    assert len(reranker.rank(QUESTION, TEXTS[:8], ids=ids)) == 8
    first = uuid.UUID(uuids(1))
    both = reranker.rank(QUESTION, [TEXTS[1], TEXTS[1]], ids=[str(first), first.hex])
    assert sorted(line.position for line in both) == [0, 1]
    either = reranker.rank(QUESTION, [TEXTS[1]], ids=[(first.hex, str(first))])
    assert [line.position for line in either] == [0]
    assert set(encoder.encoded_texts) == {QUESTION}


def test_dense_vectors_of_a_function_and_tokens_of_a_model(store):
    words, tokens = WordEncoder(24, "api"), WordEncoder(16, "tokens")
    store.make(words)
    api = FunctionEncoder(lambda texts: words.encode(texts).dense, name="api")
    collection = store.attach(api, token_encoder=tokens)
    with pytest.raises(DataError, match="enrich"):
        collection.pipeline("dynamax")
    collection.enrich()
    ranking = collection.pipeline("auto").search(QUESTION, 3)
    assert set(ranking.parts) == {"bm25", "cosine", "dynamax", "feedback"}
    with pytest.raises(IndexMismatchError, match="'tokens'"):
        store.attach(api, token_encoder=WordEncoder(16, "other"))
    without = store.attach(api)
    ranking = without.pipeline("auto").search(QUESTION, 3)
    assert "dynamax" not in ranking.parts
    assert any("of 'tokens'; attach it with that model" in value for _, value in without.status().facts())
    with pytest.raises(DataError, match="of 'tokens'; attach it with that model as token_encoder="):
        without.pipeline("dynamax")
    with pytest.raises(DataError, match="has no token vectors; give"):
        without.enrich()


@pytest.mark.server
def test_an_async_client_of_a_server_is_read(in_front):
    store, encoder = Store(in_front.store, in_front.prefix), WordEncoder()
    store.make(encoder)
    client = AsyncQdrantClient(in_front.url, check_compatibility=False)
    with Collection.attach(client, store.name, embed=encoder) as collection:
        assert len(collection.pipeline().search(QUESTION, 3)) == 3


def test_what_is_found_is_told_without_a_model(store):
    store.make(WordEncoder(), words=True)
    with store.attach(None) as found:
        facts = dict(found.status().facts())
    assert facts["points"] == "48"
    assert facts["dense vector"] == "'dense', 16 dimensions, Cosine"
    assert facts["sparse vector"] == "'bm25', with Qdrant's IDF"
    assert (facts["text"], facts["metadata"], facts["enriched"]) == ("text", "all other keys", "no")


PARAMS = models.VectorParams(size=16, distance=COSINE)
SMALL = models.VectorParams(size=8, distance=COSINE)
Made = Callable[[Store], object]


def of_points(vectors: Any, *points: models.PointStruct) -> Made:
    def made(store: Store) -> None:
        store.client.create_collection(store.name, vectors)
        if points:
            store.client.upsert(store.name, list(points))

    return made


def of(**how: Any) -> Made:
    return lambda store: store.make(WordEncoder(), **how)


def sparse_alone(store: Store) -> None:
    params = models.SparseVectorParams()
    store.client.create_collection(store.name, {}, sparse_vectors_config={"s": params})


def failing(texts: list[str]) -> Any:
    raise ConnectionError("no route to the model")


# What is there, how it is attached and searched, and what is said.
REFUSED: dict[str, tuple[Made, dict[str, Any], str]] = {
    "another dimension": (of(), {"embed": WordEncoder(24)}, "has 16 dimensions, the model's have 24"),
    "another vector": (of(vector="dense_text"), {"vector": "dense_txt"}, "did you mean 'dense_text'"),
    "several vectors": (of_points({"a": PARAMS, "b": PARAMS}), {}, "'a', 'b'; name one with vector="),
    "no text": (
        of(payload=lambda i, text: {"inhalt": text, "year": i}),
        {},
        r"inhalt, year; the longest texts are in 'inhalt'.*text=",
    ),
    "no such key": (
        of(),
        {"text": "txt"},
        "none of 48 points looked at has the key 'txt' for the text; did you mean 'text'",
    ),
    "a shared id": (
        of(payload=lambda i, text: {"text": text, "doc": f"d{i // 2}"}),
        {"id": "doc"},
        "several points have the id 'd0' in 'doc'",
    ),
    "no points": (of_points(PARAMS), {}, "is empty"),
    "no vectors": (
        of_points({"dense": PARAMS}, models.PointStruct(id=1, vector={}, payload={"text": "a"})),
        {},
        "none of 1 points looked at has the vector 'dense'",
    ),
    "no dense ones": (sparse_alone, {}, "no dense vectors and no multivectors.*it has 's'"),
    "no sparse ones": (of(), {"sparse": Bm25()}, "the collection has no sparse vector"),
    "a failing model": (
        of(),
        {"embed": FunctionEncoder(failing, name="api", dimension=16, attempts=2)},
        "no route to the model",
    ),
    "no model": (
        of(),
        {"embed": None},
        "the model of the local Qdrant, collection 'foreign' must be there, got None",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_what_was_given_what_is_there_and_what_to_do(local, case):
    made, settings, match = REFUSED[case]
    made(local)
    with pytest.raises((DataError, ModelError), match=match):
        local.attach(**{"embed": WordEncoder(), **settings}).pipeline("cosine").search(QUESTION)


def test_what_is_named_or_fits_alone_is_taken(local):
    own = {"a": [1.0] * 16, "b": [1.0] * 8}
    of_points(
        {"a": PARAMS, "b": SMALL}, models.PointStruct(id=1, vector=own, payload={"inhalt": "x", "n": 3})
    )(local)
    found = local.attach(WordEncoder(), text="inhalt")
    assert found.corpus.vectors.dense == "a"  # the only one of the model's dimension
    assert found.pipeline().search(QUESTION, 1)[0].metadata == {"n": 3}


def test_a_point_with_a_list_of_ids_is_no_document_of_one_of_them(local):
    encoder = WordEncoder()
    local.make(encoder, payload=lambda i, text: {"text": text, "sku": ["a", "s5"] if i == 4 else f"s{i}"})
    pools = local.attach(encoder, id="sku").corpus.pools
    assert pools.keys(["s7", "a", "s5"]) == {"s7": "7", "s5": "5"}
    assert pools.fetch(["s7", "a", "s5"], frozenset(), skip_missing=True).ids == ("s7", "s5")


def test_points_may_have_their_texts_in_different_keys(local):
    encoder = WordEncoder()
    local.make(encoder, payload=lambda i, text: {("text", "content", "other")[i % 3]: text, "n": i})
    collection = local.attach(encoder)
    assert ("text", "text, else content; 16 of 48 points looked at have none") in collection.status().facts()
    texts = {hit.text for hit in collection.pipeline().search(QUESTION, 48)}
    assert texts == {"", *(text for i, text in enumerate(TEXTS) if i % 3 < 2)}


def test_what_is_asked_of_the_wrong_place_says_where_it_belongs(qdrant):
    store, encoder = Store(qdrant.store, f"{qdrant.prefix}-theirs"), WordEncoder()
    store.make(encoder)
    with pytest.raises(ForeignCollectionError, match=r"Collection\.attach"):
        DocumentIndex.open(f"{qdrant.url}/{store.name}", encoder)
    with pytest.raises(StoreError, match=f"no collection '{store.name}s'; did you mean '{store.name}'"):
        Collection.attach(store.client, f"{store.name}s", embed=encoder)
    name = f"{qdrant.prefix}-own"
    with DocumentIndex.open(f"{qdrant.url}/{name}", encoder) as index:
        index.sync([Document("1", "a")])
    with pytest.raises(IndexMismatchError, match=r"DocumentIndex\.open"):
        Collection.attach(qdrant.url, name, embed=encoder)
    with pytest.raises(DataError, match="event loop; give a QdrantClient"):
        Collection.attach(AsyncQdrantClient(":memory:"), "papers")
    with pytest.raises(DataError, match=r"got dict.*SurpriseRerank\.attach"):
        Collection.attach({}, "papers", embed=encoder)
    with Collection.attach(qdrant.url, store.name, embed=encoder) as collection:
        qdrant.fault("create_collection", Status(403, "read-only access"))
        with pytest.raises(StoreError, match="refuses access"):
            collection.enrich()
        assert len(collection.pipeline().search(QUESTION, 3)) == 3


def test_what_cannot_be_done_is_refused_before_it_begins(local):
    local.make(WordEncoder())
    collection = local.attach(WordEncoder())
    with pytest.raises(DataError, match="ranks inside Qdrant"):
        collection.text_reranker("bm25")
    with pytest.raises(DataError, match="carry no moments, which Qdrant computes surprise from"):
        collection.pipeline("surprise", mode="formula")
    with pytest.raises(DataError, match="nothing to add"):
        collection.enrich(tokens=False, words=False)
    collection.enrich()
    with pytest.raises(DataError, match="enriched otherwise before"):
        collection.enrich(tokens=False)
