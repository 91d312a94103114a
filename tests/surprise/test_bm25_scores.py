"""BM25's scores: the same in every storage, whatever Qdrant's optimizer does, and for indexes of before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import Opener
from faults import Status
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SparseRetriever
from surprise_rerank.connectors.qdrant.writing import term_statistics
from surprise_rerank.connectors.qdrant.writing.term_statistics import FILE
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.documents import Document

ENCODER = WordEncoder()
OPTIONS = IndexOptions(passages=None, tokens=False)
# Texts whose words are as unevenly common as those of a language.
RANDOM = np.random.default_rng(0)
WORDS = np.minimum(RANDOM.zipf(1.3, (600, 30)), 400)
DOCUMENTS = [Document(f"d{i}", " ".join(f"w{word}" for word in own)) for i, own in enumerate(WORDS)]
QUESTIONS = [" ".join(f"w{word}" for word in RANDOM.choice(own, 4)) for own in WORDS[:15]]


def best(index: DocumentIndex, count: int = 15) -> list[tuple[tuple[str, ...], Float64Array]]:
    retriever = SparseRetriever(index)
    return [retriever.search(question, 10) for question in QUESTIONS[:count]]


def assert_equal(one: list[tuple[tuple[str, ...], Float64Array]], other: Any) -> None:
    """The same scores place by place, and the same documents where scores differ."""
    for (ids, scores), (others, theirs) in zip(one, other, strict=True):
        np.testing.assert_allclose(theirs, scores, rtol=1e-6)
        known = dict(zip(ids, scores, strict=True))
        for name, score in zip(others, theirs, strict=True):
            assert known.get(name, scores[-1]) == pytest.approx(score, rel=1e-6)


def test_scores_are_those_of_an_index_that_never_had_what_was_deleted(open_index: Opener) -> None:
    with DocumentIndex.open(":memory:", ENCODER, options=OPTIONS) as never:
        never.sync(DOCUMENTS[200:])
        expected = best(never)
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.delete([document.id for document in DOCUMENTS[:200]])
        assert_equal(expected, best(index))


def test_the_moments_are_of_the_scores_that_were_found(open_index: Opener) -> None:
    """Those of a question whose weights changed since it was weighed, too."""
    with open_index(ENCODER, options=OPTIONS) as index:
        retriever = SparseRetriever(index)
        assert retriever.search("w1", 3)[0] == ()
        assert index.storage.read_file(FILE) is None, "asking stores nothing"
        index.sync(DOCUMENTS[:90])
        for question in QUESTIONS[:10]:
            scores = retriever.score(question, [d.id for d in DOCUMENTS[:90]])
            found = retriever.moments(question)
            np.testing.assert_allclose(
                (found.mean, found.deviation), (scores.mean(), scores.std()), rtol=1e-5
            )


@pytest.fixture
def writer_and_reader(qdrant: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DocumentIndex, ...]]:
    """One index in two processes, so to say."""
    monkeypatch.setattr(term_statistics, "_PATIENCE", 0.0)
    where = {"url": qdrant.url, "collection": qdrant.prefix, "options": OPTIONS}
    with (
        DocumentIndex.open(None, ENCODER, **where) as one,
        DocumentIndex.open(None, ENCODER, **where) as other,
    ):
        yield one, other


def test_who_asks_learns_what_changes_and_does_not_fail_for_it(qdrant, writer_and_reader) -> None:
    writer, reader = writer_and_reader
    writer.sync(DOCUMENTS[:50])
    before = best(reader, 4)
    writer.sync([replace(document, text=f"{document.text} w1 w2") for document in DOCUMENTS[:50]])
    after = best(reader, 4)
    assert_equal(best(writer, 4), after)
    assert any(not np.array_equal(a, b) for (_, a), (_, b) in zip(before, after, strict=True))
    writer.rebuild(DOCUMENTS[:80])
    after = best(reader, 4)
    assert_equal(best(writer, 4), after)
    qdrant.heal()
    qdrant.fault("retrieve", Status(403, "Forbidden"), collection=".files")
    assert_equal(after[:2], best(reader, 2))
    assert qdrant.came("retrieve", ".files") == 1


@pytest.mark.server
@pytest.mark.parametrize("open_index", ["server"], indirect=True)
def test_scores_are_the_same_on_several_shards(open_index: Opener) -> None:
    with DocumentIndex.open(":memory:", ENCODER, options=OPTIONS) as whole:
        whole.sync(DOCUMENTS)
        expected = best(whole)
    with open_index(ENCODER, options=OPTIONS, collection_settings={"shard_number": 5}) as index:
        index.sync(DOCUMENTS)
        assert_equal(expected, best(index))
