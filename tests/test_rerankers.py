"""Our ranker, used as one of the package rerankers."""

from __future__ import annotations

import asyncio
import copy
import importlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from words import WordEncoder

pytest.importorskip("rerankers")

from rerankers import Document
from rerankers.models.ranker import BaseRanker
from rerankers.results import RankedResults, Result

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.rerankers import SurpriseRanker
from surprise_rerank.connectors.systems.loading import text_reranker_of
from surprise_rerank.documents import Document as Stored
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.text_reranker import TextReranker

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
OFF_TOPIC = [f"x{i} y{i} z{i % 3}" for i in range(19)]
QUESTION = "dogs bark"


@pytest.fixture
def ranker() -> SurpriseRanker:
    return SurpriseRanker(TextReranker(WordEncoder(64)))


def shown(results: RankedResults) -> list[tuple[Any, ...]]:
    return [(r.doc_id, r.text, r.metadata, r.score, r.rank) for r in results]


def test_texts_come_back_as_their_results(ranker: SurpriseRanker) -> None:
    assert isinstance(ranker, BaseRanker)
    results = ranker.rank(QUESTION, TEXTS)
    assert isinstance(results, RankedResults)
    assert results.query == QUESTION
    assert results.has_scores
    assert results.results_count() == 4
    assert isinstance(results[0], Result)
    assert [r.doc_id for r in results][:2] == [1, 2]
    assert [r.rank for r in results] == [1, 2, 3, 4]
    scores = [r.score for r in results]
    assert scores == sorted(scores, reverse=True)
    assert [r.text for r in results.top_k(2)] == [TEXTS[1], TEXTS[2]]
    assert results.get_score_by_docid(1) == scores[0]
    assert results.get_result_by_docid(3).text == TEXTS[3]


@pytest.mark.parametrize(
    ("docs", "ids", "metadata", "expected"),
    [
        ("one", None, None, [(0, {})]),
        (Document("one", doc_id="a"), None, None, [("a", {})]),
        (["one", "two"], None, None, [(0, {}), (1, {})]),
        (["one", "two"], ["a", "b"], [{"x": 1}, {}], [("a", {"x": 1}), ("b", {})]),
        ([Document("one"), Document("two", metadata={"x": 1})], None, None, [(0, {}), (1, {"x": 1})]),
        ([Document("one", doc_id=7), Document("two", doc_id=7)], None, None, [(7, {}), (7, {})]),
        ([Document("one", doc_id="a"), Document("two")], [5, 6], [{}, {"x": 2}], [(5, {}), (6, {"x": 2})]),
        ([], None, None, []),
        ((), [], [], []),
    ],
)
def test_it_takes_what_theirs_take(
    ranker: SurpriseRanker,
    capsys: pytest.CaptureFixture[str],
    docs: Any,
    ids: Any,
    metadata: Any,
    expected: list[Any],
) -> None:
    before = copy.deepcopy(docs)
    results = ranker.rank("one", docs, ids, metadata)
    assert [(r.doc_id, r.metadata) for r in results] == expected
    assert repr(docs) == repr(before)
    assert capsys.readouterr().out == ""
    assert shown(asyncio.run(ranker.rank_async("one", docs, ids, metadata))) == shown(results)


@given(st.lists(st.sampled_from([*TEXTS, ""]), max_size=6))
def test_every_text_comes_back_once_whatever_its_id(texts: list[str]) -> None:
    ranker = SurpriseRanker(TextReranker(WordEncoder()))
    results = ranker.rank(
        QUESTION, texts, doc_ids=["same"] * len(texts), metadata=[{"i": i} for i in range(len(texts))]
    )
    assert sorted(r.metadata["i"] for r in results) == list(range(len(texts)))
    assert all(texts[r.metadata["i"]] == r.text for r in results)


def test_the_score_of_a_pair_is_that_of_its_ranking(ranker: SurpriseRanker) -> None:
    results = ranker.rank(QUESTION, TEXTS)
    assert ranker.score(QUESTION, TEXTS[1]) == pytest.approx(results[0].score, abs=1e-6)


def test_a_background_makes_the_score_a_surprise_and_refuses_what_is_off_topic() -> None:
    encoder = WordEncoder(64)
    background = TextReranker(encoder).with_background(OFF_TOPIC, lambda _: TEXTS).background
    results = SurpriseRanker(TextReranker(encoder, background=background)).rank(QUESTION, TEXTS)
    assert results[0].score == results[0].surprise == 0.95
    strict = SurpriseRanker(TextReranker(encoder, background=background, min_surprise=0.9))
    assert strict.rank(QUESTION, TEXTS)[0].doc_id == 1
    assert strict.rank("x99 y99 z99", TEXTS).results_count() == 0
    assert strict.score("x99 y99 z99", TEXTS[0]) < 0.9


def test_a_surprise_of_an_earlier_score_does_not_stay_beside_the_new_one(ranker: SurpriseRanker) -> None:
    before = Document(TEXTS[1], metadata={"surprise": 0.5, "year": 2020})
    assert ranker.rank(QUESTION, [before])[0].metadata == {"year": 2020}
    assert before.metadata == {"surprise": 0.5, "year": 2020}


def test_documents_whose_id_is_stored_are_not_encoded() -> None:
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Stored(str(i), text) for i, text in enumerate(TEXTS))
        encoder.encoded_texts.clear()
        ranker = SurpriseRanker(text_reranker_of(index, "dynamax"))
        given = [
            Document(TEXTS[0], doc_id="0"),
            Document(TEXTS[1], doc_id="1"),
            Document("a stray", doc_id="x"),
        ]
        assert ranker.rank(QUESTION, given)[0].doc_id == "1"
        assert encoder.encoded_texts == [QUESTION, "a stray"]
        encoder.encoded_texts.clear()
        ranker.rank(QUESTION, ["a number is a place, not a stored id"], doc_ids=[0])
        assert len(encoder.encoded_texts) == 2


def test_what_makes_no_sense_is_refused(ranker: SurpriseRanker) -> None:
    with pytest.raises(DataError, match="1 doc_ids for 2 documents"):
        ranker.rank("q", ["a", "b"], doc_ids=["x"])
    with pytest.raises(DataError, match="3 metadata for 1 documents"):
        ranker.rank("q", "a", metadata=[{}, {}, {}])
    with pytest.raises(DataError, match=r"texts\[0\] must be a string, got NoneType"):
        ranker.rank("q", [Document(document_type="image", base64="aGVsbG8=")])
    with pytest.raises(DataError, match="SurpriseRanker has no setting 'sytem'; did you mean 'system'"):
        SurpriseRanker.load(sytem="auto")


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rerankers.documents", None)
    monkeypatch.delitem(sys.modules, "surprise_rerank.connectors.rerankers")
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[rerankers\]'"):
        importlib.import_module("surprise_rerank.connectors.rerankers")
