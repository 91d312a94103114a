"""Sparse vectors in every index that is not told otherwise; and what one does without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Opener
from words import WordEncoder

from surprise_rerank.connectors.qdrant import (
    Bm25,
    DocumentIndex,
    IndexOptions,
    SparseRetriever,
)
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries

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
