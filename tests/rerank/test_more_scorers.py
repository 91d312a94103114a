"""Scores of the application beside auto's and fusion's: a reader of pairs, popularity, recency."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder

from surprise_rerank import Candidates, DataError, Document, DocumentIndex, Query, System, register_system
from surprise_rerank.connectors._searchable import SearchableCollection
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import DenseRetriever
from surprise_rerank.connectors.systems import BuiltSystem
from surprise_rerank.connectors.systems import _register as register
from surprise_rerank.rerank import CosineScorer, CrossEncoderScorer, FusionReranker, PayloadScorer

TODAY = date(2026, 11, 1)
# Of each story an old one and a new one, in nearly the same words.
STORIES = ("the bank raised its rates", "the river flooded the valley", "the team won the final")
NEWS = [
    Document(
        f"{age} {i}",
        f"{story} said report {i} of many words about {' '.join(f'w{(i * k) % 13}' for k in range(1, 9))}",
        metadata={"date": str(TODAY - timedelta(days=days)), "clicks": 10 * i + (age == "old")},
    )
    for i in range(8)
    for story in STORIES[i % 3 : i % 3 + 1]
    for age, days in (("old", 900), ("new", 2))
]
QUESTION = "who raised rates at the bank"
RECENT = PayloadScorer("metadata.date", decay=30, origin=TODAY, name="recency")


def attached(tmp_path: Path) -> SearchableCollection:
    encoder, payloads = WordEncoder(64), [{"name": d.id, "text": d.text, **d.metadata} for d in NEWS]
    client = foreign(encoder.encode([d.content for d in NEWS]).dense, payloads, "news")
    return Collection.attach(client, "news", embed=encoder, id="name")


def own(tmp_path: Path) -> SearchableCollection:
    index = DocumentIndex.open(tmp_path / "news", WordEncoder(64))
    index.sync(NEWS, background=False)
    return index


@pytest.fixture(scope="module", params=[own, attached], ids=["own", "attached"])
def collection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchableCollection]:
    with request.param(tmp_path_factory.mktemp("news")) as opened:
        yield opened


class Reader:
    """What sentence-transformers' `CrossEncoder` has."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float("report 3" in text) for _, text in pairs]


@pytest.mark.parametrize("system", ["auto", "fusion"])
def test_a_question_about_news_prefers_the_new(collection, system):
    plain = collection.pipeline(system).search(QUESTION, 16)
    raised = collection.pipeline(system, scorers=[RECENT]).search(QUESTION, 16)
    assert set(plain.ids) == set(raised.ids)
    assert any(name.startswith("old") for name in plain.ids[:3])
    assert all(name.startswith("new") for name in raised.ids[:3])
    assert "raised its rates" in raised[0].text
    assert "recency" in raised[0].parts
    ignored = collection.pipeline(system, scorers=[RECENT], weights={"recency": 0}).search(QUESTION, 16)
    assert ignored.ids == plain.ids


def test_a_reader_of_pairs_is_taken_as_it_is(collection):
    raised = collection.pipeline("auto", scorers=[Reader()], weights={"cross-encoder": 9}).search(QUESTION, 2)
    assert {name[-1] for name in raised.ids} == {"3"}
    by_function = collection.pipeline(
        "fusion",
        scorers=[lambda question, texts: ["report 5" in text for text in texts]],
        weights={"cross-encoder": 9},
    )
    assert {name[-1] for name in by_function.search(QUESTION, 2).ids} == {"5"}
    texts = [document.text for document in NEWS]
    reranker = collection.text_reranker("auto", scorers=[Reader()], weights={"cross-encoder": 9})
    assert all("report 3" in hit.text for hit in reranker.rank(QUESTION, texts, top_k=2))


def test_surprise_is_of_the_systems_own_scores(collection):
    questions = [f"w{i} w{i + 1} word number {i}" for i in range(40)]
    collection.measure_background("auto", questions)
    plain = collection.pipeline("auto").search(QUESTION, 16)
    raised = collection.pipeline("auto", scorers=[RECENT], weights={"recency": 50}).search(QUESTION, 16)
    assert [name[:3] for name in raised.ids] == ["new"] * 8 + ["old"] * 8
    assert raised.verdict == plain.verdict
    # Each its own, where the plain ranking gives a document at least that of those below it.
    assert plain.percentile is not None
    assert raised.percentile is not None
    usual = dict(zip(plain.ids, plain.percentile, strict=True))
    assert all(mine <= usual[name] + 1e-9 for name, mine in zip(raised.ids, raised.percentile, strict=True))
    least = float(np.median(raised.percentile))
    enough = collection.pipeline("auto", scorers=[RECENT]).search(QUESTION, 16, min_percentile=least)
    assert {hit.id for hit in enough} == {
        name for name, mine in zip(raised.ids, raised.percentile, strict=True) if mine >= least
    }


def _news(inputs: Any) -> BuiltSystem:
    scorers = [CosineScorer(inputs.corpus.ensemble()), CrossEncoderScorer(Reader()), RECENT]
    return BuiltSystem("news", DenseRetriever(inputs.corpus, options=inputs.options), FusionReranker(scorers))


NEWS_SYSTEM = System(name="news", summary="cosine, a reader and recency", build=_news)


def test_a_system_of_the_users_own_ranks_any_collection(collection):
    register_system(NEWS_SYSTEM)
    try:
        ranking = collection.pipeline("news").search(QUESTION, 3)
    finally:
        del register._SYSTEMS["news"]
    assert tuple(ranking[0].parts) == ("cosine", "cross-encoder", "recency")


@pytest.mark.parametrize(
    ("system", "more", "message"),
    [
        ("cosine", {"scorers": [RECENT]}, "'cosine' has one score"),
        (
            "auto",
            {"scorers": [Reader]},
            r"model must be a CrossEncoder or another object with predict\(pairs\), a ranker of",
        ),
        ("auto", {"weights": {"recency": 1}}, "='recency' is not known; there are: "),
    ],
)
def test_what_cannot_be_added_is_refused(collection, system, more, message):
    with pytest.raises(DataError, match=message):
        collection.pipeline(system, **more)


def pool(*values: Any) -> Candidates:
    documents = tuple(
        Document(str(i), "text", metadata={} if value is None else {"a": {"b": value}})
        for i, value in enumerate(values)
    )
    return Candidates(tuple(d.id for d in documents), {}, documents=documents)


def scored(scorer: PayloadScorer, *values: Any) -> list[float]:
    return scorer.scores(Query("q"), pool(*values)).round(6).tolist()


def test_values_of_a_payload():
    plain = PayloadScorer("a.b")
    assert plain.name == "a.b"
    assert scored(plain, 3, 2.5) == [3, 2.5]
    scores = scored(plain, None, "soon", True, [1], "1970-01-02", "1970-01-02T12:00:00Z")
    assert np.isnan(scores[:4]).all()
    assert scores[4:] == [1, 1.5]
    assert plain.moments(Query("q"), pool(1, 3, None)).mean == 2
    near = PayloadScorer("a.b", decay=timedelta(days=10), origin=datetime(2026, 1, 11, tzinfo=UTC))
    assert scored(near, "2026-01-11", "2026-01-01", "2026-01-31") == [1, 0.5, 0.25]
    assert scored(PayloadScorer("a.b", decay=5, origin=20), 20, 25, 10) == [1, 0.5, 0.25]
    (now,) = scored(PayloadScorer("a.b", decay=10), datetime.now(UTC).isoformat())
    assert now == pytest.approx(1, abs=1e-3)


def test_wrong_uses_of_a_payload_are_told():
    wrong = [*((key, 1, "key must be a key of the metadata, got") for key in ("", "a..b", "."))]
    wrong += [("a", decay, "must be above 0") for decay in (0, -1, timedelta(0), float("nan"))]
    for key, decay, message in wrong:
        with pytest.raises(DataError, match=message):
            PayloadScorer(key, decay=decay)
    with pytest.raises(DataError, match=r"origin of the numbers in 'a\.b' must be there, got None"):
        scored(PayloadScorer("a.b", decay=3), 7)
    with pytest.raises(DataError, match="the candidates' documents must be there, got None"):
        PayloadScorer("a").scores(Query("q"), Candidates(("1",), {}))
