"""BM25's scores: the same in every storage, whatever Qdrant's optimizer does, and for indexes of before."""

from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SparseRetriever
from surprise_rerank.connectors.qdrant._writing.kept_terms import FILE
from surprise_rerank.core.arrays import Float64Array

ENCODER = WordEncoder()
OPTIONS = IndexOptions(passages=None, tokens=False)
# Texts whose words are as unevenly common as those of a language.
RANDOM = np.random.default_rng(0)
WORDS = np.minimum(RANDOM.zipf(1.3, (600, 30)), 400)
DOCUMENTS = [Document(f"d{i}", " ".join(f"w{word}" for word in words)) for i, words in enumerate(WORDS)]
QUESTIONS = [" ".join(f"w{word}" for word in RANDOM.choice(words, 4)) for words in WORDS[:15]]


def best(index: DocumentIndex, count: int = 15) -> list[tuple[tuple[str, ...], Float64Array]]:
    retriever = SparseRetriever(index.corpus)
    return [retriever.search(question, 10) for question in QUESTIONS[:count]]


def assert_equal(one: list[tuple[tuple[str, ...], Float64Array]], other: Any) -> None:
    """The same scores place by place, and the same documents where scores differ."""
    for (ids, scores), (others, theirs) in zip(one, other, strict=True):
        np.testing.assert_allclose(theirs, scores, rtol=1e-6)
        by_id = dict(zip(ids, scores, strict=True))
        for name, score in zip(others, theirs, strict=True):
            assert by_id.get(name, scores[-1]) == pytest.approx(score, rel=1e-6)


def test_scores_are_those_of_an_index_that_never_had_what_was_deleted(open_index):
    with DocumentIndex.open(":memory:", ENCODER, options=OPTIONS) as never:
        never.sync(DOCUMENTS[200:])
        expected = best(never)
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.delete([document.id for document in DOCUMENTS[:200]])
        assert_equal(expected, best(index))


def test_the_moments_are_of_the_scores_that_were_found(open_index):
    """Those of a question whose weights changed since it was weighed, too."""
    with open_index(ENCODER, options=OPTIONS) as index:
        retriever = SparseRetriever(index.corpus)
        assert retriever.search("w1", 3)[0] == ()
        assert index.corpus.storage.read_file(FILE) is None, "asking stores nothing"
        index.sync(DOCUMENTS[:90])
        for question in QUESTIONS[:10]:
            scores = retriever.score(question, [d.id for d in DOCUMENTS[:90]])
            moments = retriever.moments(question)
            np.testing.assert_allclose(
                (moments.mean, moments.deviation), (scores.mean(), scores.std()), rtol=1e-5
            )


@pytest.mark.server
@pytest.mark.parametrize("open_index", ["server"], indirect=True)
def test_scores_are_the_same_on_several_shards(open_index):
    with DocumentIndex.open(":memory:", ENCODER, options=OPTIONS) as whole:
        whole.sync(DOCUMENTS)
        expected = best(whole)
    with open_index(ENCODER, options=OPTIONS, collection_settings={"shard_number": 5}) as index:
        index.sync(DOCUMENTS)
        assert_equal(expected, best(index))
