"""Cross-encoders on the surprise scale: a real one of random weights, rerankers' protocol, and functions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.tiny_models import backbone
from helpers.words import WordEncoder
from sentence_transformers import CrossEncoder
from transformers import BertForSequenceClassification

from surprise_rerank import (
    Candidates,
    CosineScorer,
    DataError,
    Document,
    Ensemble,
    FusionReranker,
    Passage,
    Query,
)
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.rerank import CrossEncoderScorer
from surprise_rerank.rerank._fusion import surprise_normalized

TEXTS = ["tea and milk", "a wing gives lift", "the wing", "drag of a wing", "bread"]
SAMPLE = ["jam on bread", "salt", "milk and jam", "a pot of tea", "lift the pot"]


class Shared:
    """How many letters question and text share; counts what it is asked."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        self.counts.append(len(texts))
        return [float(len(set(question) & set(text))) for text in texts]


def scene(texts: Sequence[str] = TEXTS) -> tuple[Query, Candidates]:
    encoder = WordEncoder()
    (query,) = encode_queries(encoder, ["wing lift"])
    encoded = encoder.encode(list(texts))
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    ids = tuple(document.id for document in documents)
    return query, Candidates(ids, dense=encoded.dense, tokens=encoded.tokens, documents=documents)


def tiny_cross_encoder(folder: Path, labels: int = 1) -> CrossEncoder:
    words = sorted({word for text in TEXTS for word in text.split()})
    backbone(folder, words, BertForSequenceClassification, num_labels=labels)
    return CrossEncoder(str(folder), device="cpu")


def test_a_cross_encoder_of_sentence_transformers_scores_on_the_surprise_scale(tmp_path):
    model = tiny_cross_encoder(tmp_path)
    query, pool = scene()
    ranking = FusionReranker([CrossEncoderScorer(model, SAMPLE)]).rerank(query, pool)
    scores = np.asarray(model.predict([(query.text, text) for text in TEXTS]), np.float64)
    usual = np.asarray(model.predict([(query.text, text) for text in SAMPLE]), np.float64)
    expected = surprise_normalized(scores, Moments.of(usual))
    assert np.ptp(scores) > 0
    rows = ranking.rows_in(pool)
    np.testing.assert_allclose(ranking.parts["cross-encoder"], expected[rows], atol=1e-5)
    np.testing.assert_allclose(ranking.raw["cross-encoder"], scores[rows], atol=1e-6)
    assert list(rows) == sorted(range(5), key=lambda i: -scores[i])
    with pytest.raises(
        DataError, match=r"the shape of the scores of 'cross-encoder' must be \(5,\), got \(5, 3\)"
    ):
        CrossEncoderScorer(tiny_cross_encoder(tmp_path, labels=3)).scores(query, pool)


def test_a_ranker_of_rerankers_gives_scores_by_place():
    from_function = Shared()

    class Ranker:
        def rank(self, query: str, docs: list[str], doc_ids: list[int]) -> SimpleNamespace:
            scores = from_function(query, docs)
            results = [SimpleNamespace(doc_id=i, score=s) for i, s in zip(doc_ids, scores, strict=True)]
            return SimpleNamespace(results=sorted(results, key=lambda result: -result.score))

    query, pool = scene()
    np.testing.assert_array_equal(
        CrossEncoderScorer(Ranker()).scores(query, pool), CrossEncoderScorer(Shared()).scores(query, pool)
    )


def test_the_sample_is_scored_once_for_a_question_and_a_pool_once():
    model = Shared()
    scorer = CrossEncoderScorer(model, SAMPLE)
    fusion = FusionReranker([scorer])
    query, pool = scene()
    first = fusion.rerank(query, pool)
    np.testing.assert_array_equal(fusion.rerank(query, pool).scores, first.scores)
    assert model.counts == [5, 5]
    for text in ("tea", "salt", "jam"):
        fusion.rerank(Query(text), pool)
    fusion.rerank(Query("jam"), pool.take([0, 1]))
    assert model.counts == [5, 5] + 3 * [5, 5] + [2]


def test_without_a_sample_the_pool_says_what_is_usual():
    model = Shared()
    query, pool = scene()
    ranking = FusionReranker([CrossEncoderScorer(model)]).rerank(query, pool)
    assert model.counts == [5]
    scores = np.array(Shared()(query.text, TEXTS))
    expected = surprise_normalized(scores, Moments.of(scores))
    np.testing.assert_allclose(ranking.scores, np.sort(expected)[::-1])


def test_of_passages_the_passages_are_scored():
    seen: list[str] = []

    def model(question: str, texts: Sequence[str]) -> list[float]:
        seen.extend(texts)
        return [1.0] * len(texts)

    query, pool = scene(["a wing gives lift", "a wing gives lift"])
    passages = (Passage(0, 0, 6), Passage(1, 7, 17))
    CrossEncoderScorer(model).scores(query, replace(pool, ids=("d", "d"), passages=passages))
    assert seen == ["a wing", "gives lift"]


def test_it_is_one_more_part_of_auto():
    query, pool = scene()
    corpus = Ensemble.from_vectors(WordEncoder().encode(SAMPLE).dense)
    scorer = CrossEncoderScorer(Shared(), SAMPLE, name="reader")
    auto = FusionReranker([CosineScorer(corpus), scorer], weights={"reader": 2.0})
    assert auto.needs == {"dense", "documents"}
    ranking = auto.rerank(query, pool)
    assert tuple(ranking.parts) == ("cosine", "reader")
    z = surprise_normalized(scorer.scores(query, pool), scorer.moments(query, pool))
    np.testing.assert_allclose(ranking.parts["reader"], 2 * z[ranking.rows_in(pool)])
    halved = auto.weighted({"reader": 1.0}).rerank(query, pool)
    assert np.abs(halved.parts["reader"]).max() == pytest.approx(np.abs(ranking.parts["reader"]).max() / 2)
    left = auto.rerank(query, replace(pool, documents=None))
    assert left.notes[-1] == "without texts: the candidates have none, so reader was left out"
    with pytest.raises(DataError, match="the names of scorers must differ, got 'cosine' twice"):
        replace(auto, scorers=[*auto.scorers, CrossEncoderScorer(Shared(), name="cosine")])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda question, texts: [1.0],
            r"the shape of the scores of 'cross-encoder' must be \(5,\), got \(1,\)",
        ),
        (
            lambda question, texts: [float("nan")] * len(texts),
            "the score of 'cross-encoder' for text 0 must be a number, got nan",
        ),
        (
            lambda question, texts: [1.0, float("inf"), 0, 0, 0],
            "the score of 'cross-encoder' for text 1 must be a number, got inf",
        ),
        (
            lambda question, texts: ["a"] * len(texts),
            "scores of 'cross-encoder' must be numbers: could not convert string to float: 'a'",
        ),
    ],
)
def test_scores_that_cannot_be_used_are_told(model, message):
    query, pool = scene()
    with pytest.raises(DataError, match=message):
        CrossEncoderScorer(model).scores(query, pool)
    with pytest.raises(DataError, match=message):
        CrossEncoderScorer(model, TEXTS).moments(query, pool)


def test_what_is_no_model_and_no_sample_is_refused():
    for wrong in (3, "bge-reranker", Shared, None):
        with pytest.raises(
            DataError,
            match=r"model must be a CrossEncoder or another object with predict\(pairs\), a ranker of",
        ):
            CrossEncoderScorer(wrong)
    with pytest.raises(DataError, match="sample must be a list of strings"):
        CrossEncoderScorer(Shared(), "text")
    query, pool = scene()
    with pytest.raises(DataError, match="fetch the field 'documents'"):
        CrossEncoderScorer(Shared()).scores(query, replace(pool, documents=None))
    assert len(CrossEncoderScorer(Shared()).scores(query, pool.take([]))) == 0
