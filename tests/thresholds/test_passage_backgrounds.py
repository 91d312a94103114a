"""A background is of documents or of passages: each is measured, kept and judged by for its unit."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, DocumentIndex, NoBackgroundError, Passages
from surprise_rerank.connectors.qdrant import IndexOptions, Location
from surprise_rerank.connectors.systems import _backgrounds as backgrounds
from surprise_rerank.eval.cli.surprise_rerank.status import _report
from surprise_rerank.thresholds._verdicts import NOT_MEASURED_PASSAGES
from surprise_rerank.thresholds.varied_questions import varied_questions

TOPICS = ("bread", "chain", "tyre", "brake", "lamp", "saddle", "pedal", "wheel", "frame", "basket")
FEWER = varied_questions(60)
QUESTION = "how much oil does the chain of number 3 need?"


def long_documents(count: int) -> list[Document]:
    """Documents of some forty passages each."""
    return [
        Document(
            f"d{i}",
            " ".join(
                f"The {topic} of number {i} needs oil {n} and care." for n in range(12) for topic in TOPICS
            ),
        )
        for i in range(count)
    ]


@pytest.fixture(autouse=True)
def few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    monkeypatch.setattr(backgrounds, "varied_questions", lambda: FEWER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def index(folder: Path) -> Iterator[DocumentIndex]:
    """An index of four documents, whose score is the mean of their two best passages."""
    options = IndexOptions(passages=Passages(tokens=30, overlap=4, best=2))
    with DocumentIndex.open(folder, WordEncoder(window=64), options=options) as opened:
        opened.sync(long_documents(4))
        yield opened


def test_each_unit_has_its_background_after_a_sync(index):
    of_documents, of_passages = index.backgrounds()["auto"], index.by_unit("passage").backgrounds()["auto"]
    assert (of_documents.unit, of_passages.unit) == ("document", "passage")
    # The mean of the two best passages is less than the best of them.
    assert of_passages.totals.tolist() != of_documents.totals.tolist()
    pipeline = index.pipeline()
    assert pipeline.current_background() is not None
    by_passages = pipeline.with_options(unit="passage")
    now = by_passages.current_background()
    assert now.totals.tolist() == of_passages.totals.tolist()
    assert by_passages.with_options(unit="document").background is pipeline.background


def test_few_documents_of_many_passages_get_a_verdict_by_passages(index):
    pipeline = index.pipeline()
    documents = pipeline.search(QUESTION).verdict
    assert documents.reason == "4 documents are too few to tell; it takes 100"
    passages = pipeline.search(QUESTION, unit="passage")
    assert passages.verdict is not None
    assert passages.verdict.chance is not None
    assert passages.percentile is not None
    assert pipeline.search(QUESTION, unit="passage", min_percentile=0.5).percentile is not None


def test_a_passage_is_not_judged_by_the_background_of_documents(index, caplog):
    pipeline = index.pipeline()
    measured = pipeline.with_background(FEWER)
    ranking = measured.search(QUESTION, unit="passage")
    assert ranking.percentile is None
    reason = "the background is of documents, and passages are asked for: measure one of passages"
    assert ranking.verdict.reason == reason
    with pytest.raises(DataError, match=reason):
        measured.search(QUESTION, unit="passage", min_percentile=0.5)
    by_passages = pipeline.with_options(unit="passage").with_background(FEWER)
    assert by_passages.search(QUESTION).percentile is not None
    backgrounds.delete_background(index.corpus.by_unit("passage"), "auto")
    with caplog.at_level(logging.WARNING):
        missing = index.pipeline(unit="passage")
    assert "has no background of passages of the system auto" in caplog.text
    assert missing.search(QUESTION).verdict == NOT_MEASURED_PASSAGES
    assert pipeline.search(QUESTION).percentile is not None
    with pytest.raises(NoBackgroundError, match=r"no background of passages.*tune background --passages"):
        index.pipeline(unit="passage", min_percentile=0.5)


def test_a_rebuild_asks_the_questions_of_each_unit_again(index, folder):
    mine = varied_questions(80)[60:]
    index.by_unit("passage").measure_background(questions=mine, origin="mine")
    index.rebuild(long_documents(5))
    assert index.by_unit("passage").backgrounds()["auto"].origin == "mine"
    assert index.backgrounds()["auto"].documents == 5
    index.close()
    with DocumentIndex.open(folder, None) as index:
        values, facts = _report(index, Location(folder))
    assert [background["origin"] for background in values["passage_backgrounds"]] == ["mine"]
    assert "background of passages of auto" in dict(facts)


def test_documents_that_are_not_split_have_one_background(tmp_path):
    with DocumentIndex.open(tmp_path / "whole", WordEncoder(window=64)) as index:
        # As many as a pool holds: of more that are equal, Qdrant takes any.
        index.sync(Document(f"d{i}", f"The {TOPICS[i % 10]} of number {i} needs oil.") for i in range(100))
        assert not list((tmp_path / "whole").rglob("passage-background*"))
        pipeline = index.pipeline()
        by_documents, by_passages = pipeline.search(QUESTION), pipeline.search(QUESTION, unit="passage")
        assert by_documents.percentile.tolist() == by_passages.percentile.tolist()
        assert by_documents.verdict == by_passages.verdict
        # With the first document that is split, passages get one.
        index.sync(long_documents(20))
        assert index.by_unit("passage").backgrounds()["auto"].unit == "passage"
        assert pipeline.search(QUESTION, unit="passage").percentile is not None
