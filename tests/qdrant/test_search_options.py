"""Options of one call: as if the pipeline were made with them, whoever made the collection."""

import asyncio
from collections.abc import Iterator

import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import DataError, Document
from surprise_rerank.connectors._searchable import SearchableCollection
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.thresholds.varied_questions import varied_questions

SUBJECTS = ["lift of a wing", "drag of a body", "heat of a plate", "noise of a jet"]
DOCUMENTS = [Document(f"{i}", f"{SUBJECTS[i % 4]} number {i}", metadata={"old": i < 20}) for i in range(40)]
QUESTION = "the lift of a wing"
SYSTEMS = ["cosine", "bm25", "dynamax", "fusion", "auto"]


@pytest.fixture(scope="module", params=["own", "attached"])
def collection(request: pytest.FixtureRequest) -> Iterator[SearchableCollection]:
    encoder = WordEncoder(32)
    if request.param == "own":
        with DocumentIndex.open(":memory:", encoder) as index:
            index.sync(DOCUMENTS)
            yield index
        return
    payloads = [{"text": own.text, "metadata": own.metadata} for own in DOCUMENTS]
    client = foreign(encoder.encode([own.text for own in DOCUMENTS]).dense, payloads)
    theirs = Collection.attach(client, "papers", embed=encoder)
    theirs.enrich()
    yield theirs


def where(*, old: bool) -> models.Filter:
    match = models.FieldCondition(key="metadata.old", match=models.MatchValue(value=old))
    return models.Filter(must=[match])


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_filter_of_a_call_is_that_of_a_pipeline(collection, system):
    pipeline = collection.pipeline(system)
    found = pipeline.search(QUESTION, 5, filter=where(old=False))
    made = collection.pipeline(system, filter=where(old=False)).search(QUESTION, 5)
    assert found.ids == made.ids
    assert found.scores == pytest.approx(made.scores, abs=1e-6)
    assert {int(name) >= 20 for name in found.ids} == {True}
    both = collection.pipeline(system, filter=where(old=True)).search(QUESTION, filter=where(old=False))
    assert not len(both)
    assert {int(name) >= 20 for name in pipeline.search(QUESTION).ids} == {True, False}  # as it was
    assert asyncio.run(pipeline.asearch(QUESTION, 5, filter=where(old=False))).ids == found.ids


@pytest.mark.parametrize("system", SYSTEMS)
def test_many_questions_find_what_each_finds(collection, system):
    pipeline = collection.pipeline(system)
    encoder = collection.encoder
    assert isinstance(encoder, WordEncoder)
    before = len(encoder.encoded_texts)
    found = pipeline.search_many(SUBJECTS, 4, filter=where(old=True))
    assert encoder.encoded_texts[before:] == ([] if system == "bm25" else SUBJECTS)
    assert [own.ids for own in found] == [
        pipeline.search(subject, 4, filter=where(old=True)).ids for subject in SUBJECTS
    ]
    assert pipeline.search_many([]) == []
    with pytest.raises(DataError, match="questions must be a list of strings, got 'wing'"):
        pipeline.search_many("wing")


def test_a_threshold_of_a_call_is_that_of_a_pipeline(collection):
    collection.measure_background("cosine", list(varied_questions(40)))
    pipeline = collection.pipeline("cosine")
    least = float(pipeline.search(QUESTION)[2].percentile or 0)
    found = pipeline.search(QUESTION, min_percentile=least)
    assert found.ids == collection.pipeline("cosine", min_percentile=least).search(QUESTION).ids
    assert 3 <= len(found) <= len(pipeline.search(QUESTION))
    texts = collection.text_reranker("cosine")
    given = [document.text for document in DOCUMENTS]
    ranked = texts.rank(QUESTION, given, ids=[document.id for document in DOCUMENTS], min_percentile=least)
    assert 0 < len(ranked) < len(given)
    assert min(line.percentile or 0 for line in ranked) >= least


def test_a_reranked_text_has_what_a_hit_has(collection):
    texts = [document.text for document in DOCUMENTS[:5]]
    first, *others = collection.text_reranker("cosine").rank(QUESTION, texts, ids=[*"01234"], collapse=0.1)
    assert (first.id, first.text) == (str(first.position), texts[first.position])
    assert (first.title, first.metadata) == ("", {})
    assert first.duplicates == tuple(str(i) for i in first.folded)
    assert len(first.folded) + len(others) >= 1
    assert repr(collection).count("\n") == 0
    assert type(collection).__name__ in repr(collection)
