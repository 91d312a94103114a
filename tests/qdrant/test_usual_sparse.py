"""Sparse vectors in every index that is not told otherwise; and what one does without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Opener
from words import WordEncoder

from surprise_rerank.connectors.qdrant import (
    Bm25,
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SparseRetriever,
)
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError, IndexMismatchError

DOCUMENTS = [
    Document("cat", "the cat sat on the mat"),
    Document("dog", "dogs bark at night"),
    Document("stop", "the of and"),
    Document("none", ""),
]
WITHOUT = IndexOptions(bm25=None)
(QUERY,) = encode_queries(WordEncoder(), ["why do dogs bark at a cat"])


def test_an_index_stores_sparse_vectors_unless_told_otherwise(open_index: Opener) -> None:
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS)
        assert index.manifest.options == IndexOptions(bm25=Bm25())
        found = SparseRetriever(index).retrieve(QUERY, 10)
    assert sorted(found.ids) == ["cat", "dog"]  # texts without a term are found by no word
    assert found.ids[0] == "dog"


def test_documents_without_a_term_do_not_count_in_the_words_of_others(
    open_index: Opener, tmp_path: Path
) -> None:
    with open_index(WordEncoder()) as index, DocumentIndex.open(tmp_path / "fewer", WordEncoder()) as fewer:
        index.sync(DOCUMENTS)
        fewer.sync(DOCUMENTS[:2])
        found, expected = (SparseRetriever(i).retrieve(QUERY, 10) for i in (index, fewer))
    assert found.ids == expected.ids
    assert found.scores["bm25"] == pytest.approx(expected.scores["bm25"], rel=1e-6)


def test_an_index_that_was_made_without_them_stays_as_it_is(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=WITHOUT) as index:
        index.sync(DOCUMENTS[:2])
    with open_index(WordEncoder()) as index:
        assert index.manifest.options == WITHOUT
        assert index.sync(DOCUMENTS).added == 2
        assert len(DenseRetriever(index).retrieve(QUERY, 10)) == 4
        with pytest.raises(DataError, match="stores no sparse vectors; rebuild it"):
            SparseRetriever(index)
        index.rebuild(DOCUMENTS)
        assert index.manifest.options == WITHOUT
    with open_index(WordEncoder(), options=WITHOUT) as index:
        assert len(index) == 4
    with pytest.raises(IndexMismatchError, match="was made with bm25=None, asked for is bm25=Bm25"):
        open_index(WordEncoder(), options=IndexOptions(bm25=Bm25()))


def test_a_rebuild_adds_them(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=WITHOUT) as index:
        index.sync(DOCUMENTS)
        index.rebuild(DOCUMENTS, options=IndexOptions())
        assert SparseRetriever(index).retrieve(QUERY, 1).ids == ("dog",)
    with open_index(WordEncoder(), options=IndexOptions()) as index:
        assert index.sync(DOCUMENTS).unchanged == 4
