"""Surprise in three places, and BM25, inside the engine, and what Qdrant offers passed through."""

import threading

import numpy as np
import pytest
from conftest import Opener, require_one_ranking
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import DataError, Document, Ensemble, IndexMismatchError, Query, SurpriseReranker
from surprise_rerank.connectors.qdrant import (
    Bm25,
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SearchOptions,
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever
from surprise_rerank.encoders.base import encode_queries

WORDS = [f"w{i}" for i in range(40)]
RANDOM = np.random.default_rng(7)
DOCUMENTS = [
    Document(
        f"d{i}",
        " ".join(RANDOM.choice(WORDS, size=RANDOM.integers(3, 12))),
        metadata={"year": 1990 + i % 10, "author": f"a{i % 4}", "even": i % 2 == 0},
    )
    for i in range(120)
]
QUESTIONS = [" ".join(RANDOM.choice(WORDS, size=4)) for _ in range(25)]
FULL = IndexOptions(
    passages=None,
    surprise_vector=True,
    bm25=Bm25(),
)
ASKED = [" ".join(RANDOM.choice(WORDS, size=3)) for _ in range(12)]
MODES = ("formula", "vector")
YEARS = models.Filter(must=[models.FieldCondition(key="metadata.year", range=models.Range(gte=1995))])


@pytest.fixture
def index(open_index: Opener) -> DocumentIndex:
    encoder = WordEncoder()
    with open_index(encoder, options=FULL) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(QUESTIONS).dense), source="questions")
        yield index


def queries() -> list[Query]:
    return encode_queries(WordEncoder(), ASKED)


def test_both_places_give_one_ranking(index):
    retrievers = [
        SurpriseRetriever(index.corpus, mode="formula", pool=len(DOCUMENTS), exact=True),
        SurpriseRetriever(index.corpus, mode="vector", exact=True),
    ]
    reranker = SurpriseReranker(index.corpus.statistics().ensemble, weight=1.0)
    for query in queries():
        formula, vector = (r.retrieve(query, 30) for r in retrievers)
        require_one_ranking(index, formula, vector)
        everything = index.corpus.search(query, len(DOCUMENTS), frozenset({"dense"}), exact=True)
        expected = reranker.rerank(query, everything).top(30)
        np.testing.assert_allclose(formula.scores["surprise"], expected.scores, atol=2e-6)


def test_the_augmented_vectors_find_what_the_pool_of_cosine_misses(index):
    retrievers = [SurpriseRetriever(index.corpus, mode=mode, exact=True) for mode in ("formula", "vector")]
    pooled, searched = ([r.retrieve(q, 5).scores["surprise"].sum() for q in queries()] for r in retrievers)
    assert all(one <= other + 1e-6 for one, other in zip(pooled, searched, strict=True))
    assert sum(searched) > sum(pooled)


def test_pooled_statistics_rank_by_mean_alone(index):
    ensemble = index.corpus.statistics().ensemble
    index.set_ensemble(ensemble, shrink_deviation=1.0)
    reranker = SurpriseReranker(ensemble, model="pooled", weight=1.0, anchors=index.ensemble())
    for query in queries():
        everything = index.corpus.search(query, len(DOCUMENTS), frozenset({"dense"}), exact=True)
        expected = reranker.rerank(query, everything).top(10)
        for mode in MODES:
            pool = SurpriseRetriever(index.corpus, mode=mode, pool=len(DOCUMENTS), exact=True).retrieve(
                query, 10
            )
            np.testing.assert_allclose(pool.scores["surprise"], expected.scores, atol=2e-6)


def test_bm25_inside_the_engine_finds_the_words(index):
    retriever = SparseRetriever(index.corpus)
    (query,) = encode_queries(index.encoder, [DOCUMENTS[5].text])
    pool = retriever.retrieve(query, 20, frozenset({"documents"}))
    assert pool.documents is not None
    assert all(set(query.text.split()) & set(d.text.split()) for d in pool.documents)
    np.testing.assert_allclose(retriever.score(query.text, pool.ids), pool.scores["bm25"], rtol=1e-5)
    absent = next(d.id for d in DOCUMENTS if not set(d.text.split()) & set(query.text.split()))
    assert retriever.score(query.text, [absent]) == [0.0]
    assert retriever.moments(query.text).deviation > 0


def test_every_retriever_can_be_narrowed_beside_its_own_filter(index):
    even = models.FieldCondition(key="metadata.even", match=models.MatchValue(value=True))
    of_years = SearchOptions(filter=YEARS)
    (query,) = encode_queries(index.encoder, ["w1 w2 w3"])
    wanted = {d.id for d in DOCUMENTS if d.metadata["year"] >= 1995 and d.metadata["even"]}
    for retriever in (
        DenseRetriever(index.corpus, options=of_years),
        SurpriseRetriever(index.corpus, options=of_years, pool=120),
        SparseRetriever(index.corpus, options=of_years),
        HybridRetriever(index.corpus, SparseRetriever(index.corpus, of_years), options=of_years),
    ):
        narrowed = retriever.among(models.Filter(must=[even]))
        assert type(narrowed) is type(retriever)
        pool = narrowed.retrieve(query, 120)
        assert len(pool) > 0
        assert set(pool.ids) <= wanted
        if not isinstance(retriever, SparseRetriever):  # which finds what shares a word only
            assert set(pool.ids) == wanted
    with pytest.raises(DataError, match=r"filter must be a Filter, got \{'must': \[\]\}"):
        DenseRetriever(index.corpus, options=of_years).among({"must": []})


@pytest.mark.parametrize("mode", MODES)
def test_filters_offsets_and_thresholds_pass_through(index, mode):
    (query,) = encode_queries(index.encoder, ["w1 w2 w3"])
    wanted = {d.id for d in DOCUMENTS if d.metadata["year"] >= 1995}
    plain = SurpriseRetriever(
        index.corpus, mode=mode, exact=True, options=SearchOptions(filter=YEARS), pool=120
    )
    best = plain.retrieve(query, 20)
    assert len(best) == 20
    assert set(best.ids) <= wanted
    options = SearchOptions(filter=YEARS, offset=5)
    later = SurpriseRetriever(index.corpus, mode=mode, exact=True, options=options, pool=120).retrieve(
        query, 15
    )
    assert later.ids == best.ids[5:]
    least = float(best.scores["surprise"][9])
    options = SearchOptions(filter=YEARS, score_threshold=least)
    above = SurpriseRetriever(index.corpus, mode=mode, exact=True, options=options, pool=120).retrieve(
        query, 20
    )
    assert above.ids == best.ids[:10]


def test_what_the_index_lacks_is_told(open_index):
    with open_index(WordEncoder(), options=IndexOptions(passages=None, bm25=None)) as index:
        index.sync(DOCUMENTS[:10])
        with pytest.raises(IndexMismatchError, match="has no ensemble"):
            SurpriseRetriever(index.corpus)
        with pytest.raises(DataError, match="augmented vectors"):
            SurpriseRetriever(index.corpus, mode="vector")
        with pytest.raises(DataError, match="formula, vector"):
            SurpriseRetriever(index.corpus, mode="magic")
        with pytest.raises(DataError, match="sparse vectors"):
            SparseRetriever(index.corpus)


@pytest.mark.parametrize("mode", MODES)
def test_more_equal_documents_than_the_pool_end_a_search(open_index, mode):
    encoder = WordEncoder()
    with open_index(encoder, options=IndexOptions(passages=None, surprise_vector=True)) as index:
        index.sync([Document(f"e{i:02}", "the same words") for i in range(30)])
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(QUESTIONS).dense))
        (query,) = encode_queries(encoder, ["same"])
        pool = SurpriseRetriever(index.corpus, mode=mode, pool=20).retrieve(query, 5)
        assert len(pool) == 5
        assert list(pool.ids) == sorted(pool.ids)


def test_searches_of_other_threads_are_waited_for(open_index):
    encoder = WordEncoder()
    (query,) = encode_queries(encoder, ["w1 w2"])
    index = open_index(encoder)
    index.sync(DOCUMENTS)
    errors: list[Exception] = []

    def searching() -> None:
        try:
            while not closed.is_set():
                index.corpus.search(query, 10)
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    closed = threading.Event()
    threads = [threading.Thread(target=searching) for _ in range(3)]
    for thread in threads:
        thread.start()
    index.rebuild(DOCUMENTS[:50])
    closed.set()
    for thread in threads:
        thread.join()
    assert len(index) == 50
    assert len(index.corpus.search(query, 100)) == 50
    index.close()
    assert not any("Already borrowed" in str(error) for error in errors)
