"""Our ranker, used as one of the package rerankers."""

import asyncio
import copy

import pytest
from helpers.words import WordEncoder

pytest.importorskip("rerankers")

from rerankers import Document
from rerankers.models.ranker import BaseRanker
from rerankers.results import RankedResults

from surprise_rerank import DataError, SearchOptions, TextReranker
from surprise_rerank import Document as Stored
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.rerankers import SurpriseRanker

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
OFF_TOPIC = [f"x{i} y{i} z{i % 3}" for i in range(19)]
QUESTION = "dogs bark"


@pytest.fixture
def ranker() -> SurpriseRanker:
    return SurpriseRanker(TextReranker(WordEncoder(64)))


def test_texts_come_back_as_their_results(ranker):
    assert isinstance(ranker, BaseRanker)
    results = ranker.rank(QUESTION, TEXTS)
    assert isinstance(results, RankedResults)
    assert (results.query, results.has_scores, results.results_count()) == (QUESTION, True, 4)
    assert [r.doc_id for r in results][:2] == [1, 2]
    assert [r.rank for r in results] == [1, 2, 3, 4]
    assert [r.text for r in results.top_k(2)] == [TEXTS[1], TEXTS[2]]
    assert results.get_score_by_docid(1) == results[0].score
    assert ranker.score(QUESTION, TEXTS[1]) == pytest.approx(results[0].score, abs=1e-6)


@pytest.mark.parametrize(
    ("docs", "ids", "metadata", "expected"),
    [
        ("one", None, None, [(0, {})]),
        (Document("one", doc_id="a"), None, None, [("a", {})]),
        (["one", "two"], ["a", "b"], [{"x": 1}, {}], [("a", {"x": 1}), ("b", {})]),
        ([Document("one"), Document("two", metadata={"x": 1})], None, None, [(0, {}), (1, {"x": 1})]),
        ([Document("one", doc_id=7), Document("two", doc_id=7)], None, None, [(7, {}), (7, {})]),
        ([Document("one", doc_id="a"), Document("two")], [5, 6], [{}, {"x": 2}], [(5, {}), (6, {"x": 2})]),
        ((), [], [], []),
    ],
)
def test_it_takes_what_theirs_take(ranker, capsys, docs, ids, metadata, expected):
    before = copy.deepcopy(docs)
    results = ranker.rank("one", docs, ids, metadata)
    assert [(r.doc_id, r.metadata) for r in results] == expected
    assert repr(docs) == repr(before)
    assert capsys.readouterr().out == ""
    again = asyncio.run(ranker.rank_async("one", docs, ids, metadata))
    assert [(r.doc_id, r.score) for r in again] == [(r.doc_id, r.score) for r in results]


def test_the_verdict_is_beside_the_results():
    judged = TextReranker(WordEncoder(64)).with_background(OFF_TOPIC, lambda _: TEXTS)
    strict = SurpriseRanker(
        TextReranker(judged.encoder, background=judged.background, options=SearchOptions(min_percentile=0.9))
    )
    ranked, nothing = strict.rank(QUESTION, TEXTS), strict.rank("x99 y99 z99", TEXTS)
    assert (ranked[0].rerank_verdict, ranked.verdict.status) == ("unknown", "unknown")
    assert (nothing.results, nothing.verdict.status) == ([], "off-topic")
    assert strict.score("x99 y99 z99", TEXTS[0]) < 0.9


def test_a_number_is_a_place_and_no_stored_id():
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync([Stored("0", TEXTS[0])])
        encoder.encoded_texts.clear()
        SurpriseRanker(index.text_reranker("dynamax")).rank(QUESTION, ["a place"], doc_ids=[0])
        assert encoder.encoded_texts == [QUESTION, "a place"]


def test_what_makes_no_sense_is_refused(ranker):
    with pytest.raises(DataError, match="the length of doc_ids must be 2, got 1"):
        ranker.rank("q", ["a", "b"], doc_ids=["x"])
    with pytest.raises(DataError, match="the length of metadata must be 1, got 3"):
        ranker.rank("q", "a", metadata=[{}, {}, {}])
    with pytest.raises(DataError, match=r"texts\[0\] must be a string, got None"):
        ranker.rank("q", [Document(document_type="image", base64="aGVsbG8=")])
