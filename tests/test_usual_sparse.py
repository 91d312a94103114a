"""Sparse vectors in every index, where they can be computed; and what an index does without them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from conftest import NEEDS_EDGE, Opener
from words import WordEncoder

from surprise_rerank import Passages
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import (
    Bm25,
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SparseRetriever,
)
from surprise_rerank.core.extras import is_installed
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError, IndexMismatchError, MissingExtraError
from surprise_rerank.eval.retrieval.workspace import Workspace

DOCUMENTS = [
    Document("cat", "the cat sat on the mat"),
    Document("dog", "dogs bark at night"),
    Document("stop", "the of and"),
    Document("none", ""),
]
WITHOUT = IndexOptions(bm25=None)
(QUERY,) = encode_queries(WordEncoder(), ["why do dogs bark at a cat"])


@pytest.fixture
def without_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """`qdrant_edge` cannot be found or imported from here on."""
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    assert not is_installed("qdrant_edge")


@NEEDS_EDGE
def test_an_index_stores_sparse_vectors_unless_told_otherwise(open_index: Opener) -> None:
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS)
        assert index.manifest.options == IndexOptions(bm25=Bm25())
        found = SparseRetriever(index).retrieve(QUERY, 10)
    assert sorted(found.ids) == ["cat", "dog"]  # texts without a term are found by no word
    assert found.ids[0] == "dog"


@NEEDS_EDGE
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


@NEEDS_EDGE
def test_a_rebuild_adds_them(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=WITHOUT) as index:
        index.sync(DOCUMENTS)
        index.rebuild(DOCUMENTS, options=IndexOptions())
        assert SparseRetriever(index).retrieve(QUERY, 1).ids == ("dog",)
    with open_index(WordEncoder(), options=IndexOptions()) as index:
        assert index.sync(DOCUMENTS).unchanged == 4


def test_none_are_stored_where_nothing_computes_them(without_edge: None, tmp_path: Path) -> None:
    assert IndexOptions() == WITHOUT
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        assert index.sync(DOCUMENTS).added == 4
        assert index.engine == "local"
        assert index.manifest.options.bm25 is None


@NEEDS_EDGE
def test_an_index_that_has_them_opens_where_nothing_computes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    with DocumentIndex.open(folder, WordEncoder(), engine="local") as index:
        index.sync(DOCUMENTS)
        before = DenseRetriever(index).retrieve(QUERY, 10)
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    with DocumentIndex.open(folder, WordEncoder()) as index:
        assert index.manifest.options.bm25 == Bm25()
        found = DenseRetriever(index).retrieve(QUERY, 10)
        assert found.ids == before.ids
        assert found.scores["cosine"].tolist() == before.scores["cosine"].tolist()
        assert index.sync(DOCUMENTS).unchanged == 4
        with pytest.raises(MissingExtraError, match=r"sparse vectors.*not installed: run pip install .*edge"):
            SparseRetriever(index).retrieve(QUERY, 10)
        with pytest.raises(MissingExtraError, match=r"sparse vectors.*not installed: run pip install .*edge"):
            index.sync([*DOCUMENTS, Document("new", "a bird")])
        assert len(index) == 4
        assert index.delete(["none"]) == 1


@NEEDS_EDGE
@pytest.mark.parametrize("passages", [False, True])
def test_caches_with_and_without_them_lie_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passages: bool
) -> None:
    space = Workspace(tmp_path, "demo", WordEncoder(), None, Terminal(quiet=True), passages)
    with_words, stored = space.name, space.options
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    assert space.options == dataclasses.replace(stored, bm25=None)
    assert stored == IndexOptions(passages=Passages() if passages else None, bm25=Bm25())
    assert "-sparse-" in with_words
    assert "-sparse-" not in space.name
