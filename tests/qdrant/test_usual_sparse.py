"""Sparse vectors in every index that is not told otherwise; and what one does without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Opener
from words import WordEncoder

from surprise_rerank.connectors.qdrant import (
    DocumentIndex,
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
(QUERY,) = encode_queries(WordEncoder(), ["why do dogs bark at a cat"])


def test_documents_without_a_term_do_not_count_in_the_words_of_others(
    open_index: Opener, tmp_path: Path
) -> None:
    with open_index(WordEncoder()) as index, DocumentIndex.open(tmp_path / "fewer", WordEncoder()) as fewer:
        index.sync(DOCUMENTS)
        fewer.sync(DOCUMENTS[:2])
        found, expected = (SparseRetriever(i).retrieve(QUERY, 10) for i in (index, fewer))
    assert found.ids == expected.ids
    assert found.scores["bm25"] == pytest.approx(expected.scores["bm25"], rel=1e-6)
