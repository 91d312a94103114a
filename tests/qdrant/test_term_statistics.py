"""BM25's moments over all documents, and the statistics that they come from: right after every change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError, Document, IndexingError, Passages, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SparseRetriever
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._schema import point_id
from surprise_rerank.connectors.qdrant._storage.files import FolderFiles
from surprise_rerank.connectors.qdrant._storage.folder import FolderStorage
from surprise_rerank.connectors.qdrant._writing import kept_terms
from surprise_rerank.connectors.qdrant._writing.kept_terms import FILE, KeptTerms
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.core._terms import TermBatch

ENCODER = WordEncoder()
OPTIONS = IndexOptions(passages=None)
DOCUMENTS = [Document(f"d{i}", f"w{i} w{i % 7} w{i % 3} w{i % 3} shared") for i in range(40)]
QUERIES = ["w1", "w1 w2 w39", "shared", "w30 shared", "w5 w6 w0", "other w4"]

# A text: term -> value. Few terms, so that they meet.
texts = st.lists(st.dictionaries(st.integers(0, 6), st.floats(0.125, 2.5, width=32)), max_size=30)
questions = st.sets(st.integers(0, 8), max_size=5)


def batch(points: list[dict[int, float]]) -> TermBatch:
    return TermBatch.of([(sorted(own), [own[term] for term in sorted(own)]) for own in points])


def vector(terms: set[int]) -> SparseVector:
    return SparseVector(np.array(sorted(terms), np.uint32), np.ones(len(terms), np.float32))


def weights(points: list[dict[int, float]], terms: set[int]) -> dict[int, float]:
    """The IDF of each term, as Qdrant has it."""
    filled = sum(bool(own) for own in points)
    counts = {term: sum(term in own for own in points) for term in terms}
    return {term: float(np.log1p((filled - n + 0.5) / (n + 0.5))) for term, n in counts.items()}


def scored(points: list[dict[int, float]], terms: set[int]) -> np.ndarray:
    """(n,) the score of every point, by definition."""
    w = weights(points, terms)
    return np.array([sum(w[term] * own.get(term, 0.0) for term in terms) for own in points])


class TestMoments:
    @given(points=texts, terms=questions, depth=st.integers(0, 30))
    @settings(deadline=None)
    def test_take_words_of_the_others_as_independent(self, points, terms, depth):
        scores = scored(points, terms)
        best = np.sort(scores[scores > 0])[::-1][:depth]
        found = TermStatistics.of(batch(points)).moments(vector(terms), best)
        w, n = weights(points, terms), max(len(points), 1)
        left = 1 - best.sum() / scores.sum() if scores.sum() > 0 else 0.0
        squares = (best**2).sum()
        for one in terms:
            for other in terms:
                a = np.array([w[one] * point.get(one, 0.0) for point in points])
                b = np.array([w[other] * point.get(other, 0.0) for point in points])
                squares += left * (a * b).sum() if one == other else left**2 * a.sum() * b.sum() / n
        variance = squares / n - (scores.sum() / n) ** 2
        if not len(best):  # which the search tells: nothing matches
            scores, variance = np.zeros(1), 0.0
        assert found.mean == pytest.approx(scores.sum() / n, rel=1e-6)
        assert found.deviation == pytest.approx(np.sqrt(max(variance, 0.0)), rel=1e-4, abs=1e-4)

    def test_of_a_word_that_no_document_has_are_zero(self):
        found = TermStatistics.of(batch([{1: 1.0}, {2: 1.0}])).moments(vector({5}), np.zeros(0))
        assert (found.mean, found.deviation) == (0, 0)

    @given(points=texts, terms=questions)
    @settings(deadline=None)
    def test_are_exact_where_all_scores_are_known(self, points, terms):
        scores = scored(points, terms)
        found = TermStatistics.of(batch(points)).moments(vector(terms), np.sort(scores[scores > 0])[::-1])
        some = bool((scores > 0).any())
        assert found.mean == pytest.approx(scores.mean() if some else 0.0, rel=1e-4)
        assert found.deviation == pytest.approx(scores.std() if some else 0.0, rel=1e-4, abs=1e-4)


class TestArithmetic:
    @given(first=texts, second=texts)
    @settings(deadline=None)
    def test_what_is_taken_off_leaves_the_rest(self, first, second):
        whole = TermStatistics.of(batch(first + second))
        left = TermStatistics.total([whole, TermStatistics.of(batch(second), -1)])
        assert_same(left, TermStatistics.of(batch(first)))

    @given(points=texts)
    @settings(deadline=None)
    def test_a_file_brings_back_the_same(self, points):
        own = TermStatistics.of(batch(points))
        assert_same(TermStatistics.from_bytes(own.to_bytes()), own)

    @pytest.mark.parametrize("content", [b"", b"stale", b"PK\x03\x04 something"])
    def test_something_else_is_refused(self, content):
        with pytest.raises(DataError, match="count them again"):
            TermStatistics.from_bytes(content)


def assert_same(one: TermStatistics, other: TermStatistics) -> None:
    assert (one.points, one.filled) == (other.points, other.filled)
    np.testing.assert_array_equal(one.terms, other.terms)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(one.sums, other.sums)
    np.testing.assert_allclose(one.squares, other.squares, atol=1e-9)


def counted(index: DocumentIndex) -> TermStatistics:
    """Counted anew, whatever is stored."""
    return TermStatistics.counted(index.corpus.storage.engine.scroll((), ("bm25",)))


def assert_right(index: DocumentIndex) -> None:
    assert_same(index.corpus.term_statistics(), counted(index))
    pages = index.corpus.storage.engine.scroll(("id",))
    documents = sorted({record.payload["id"] for page in pages for record in page})
    retriever = SparseRetriever(index.corpus)
    for query in QUERIES:
        scores = retriever.score(query, documents)
        moments = retriever.moments(query)
        np.testing.assert_allclose(moments.mean, scores.mean(), rtol=1e-5)
        np.testing.assert_allclose(moments.deviation, scores.std(), rtol=1e-5, atol=1e-6)


@contextmanager
def killed() -> Iterator[None]:
    """What a killed process leaves: it has set its mark, and comes to no end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptTerms, "end", lambda self, counted: None)
        yield


def test_every_change_keeps_them_right(open_index, counting):
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS[:30])
        assert_right(index)
        changed = [Document(d.id, f"{d.text} w1 new") for d in DOCUMENTS[:5]]
        index.sync([*changed, *DOCUMENTS[30:], Document("empty", "?!")])
        assert_right(index)
        index.delete(["d7", "d8", "nowhere"])
        assert_right(index)
    before = len(counting)
    with open_index(ENCODER) as index:
        assert_same(index.corpus.term_statistics(), index.corpus.term_statistics())
        assert len(counting) == before  # the file had them
        assert index.sync(DOCUMENTS[10:], prune=True).removed > 0
        assert_right(index)
        assert index.rebuild(DOCUMENTS[:12]).added == 12
        assert_right(index)
        assert index.corpus.term_statistics().points == 12


def test_a_kill_is_noticed_and_all_is_counted_again(open_index, counting):
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS[:30])
        with killed():
            index.sync(DOCUMENTS)
    with open_index(ENCODER) as index:
        assert_right(index)
        assert 40 in counting
        index.sync([Document("d1", "w1 changed")])
    counting.clear()
    with open_index(ENCODER) as index:
        index.corpus.term_statistics()
        assert counting == []  # the next change has stored them
        assert_right(index)


def test_an_index_without_them_is_counted(open_index, counting):
    """On a server once; who reads a folder writes nothing there."""
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.corpus.storage.delete_file(FILE)
    counting.clear()
    for times in (1, 2):
        with open_index(ENCODER) as index:
            index.corpus.term_statistics()
            index.corpus.term_statistics()
            assert counting == [40] * (1 if index.corpus.engine == "server" else times)
    with open_index(ENCODER) as index:
        index.corpus.storage.delete_file(FILE)
        index.delete(["d3"])
        assert_right(index)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts as a large index has them, and changes that do not fit into the memory."""
    monkeypatch.setattr(kept_terms, "_PART_TERMS", 2)
    monkeypatch.setattr(kept_terms, "_PARTS_READ", 8)
    monkeypatch.setattr(kept_terms, "_PENDING", 30)
    monkeypatch.setattr(kept_terms, "_MOST_PENDING", 20)


def noted_parts(index: DocumentIndex, monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """The numbers of the parts that are read or written from now on."""
    numbers, does = list[int](), getattr(index.corpus.storage, name)

    def noting(table: str, parts: Any) -> Any:
        numbers.extend(parts)
        return does(table, parts)

    monkeypatch.setattr(index.corpus.storage, name, noting)
    return numbers


@pytest.mark.usefixtures("small_parts")
def test_a_change_writes_the_parts_of_its_terms_and_a_question_reads_its_own(open_index, monkeypatch):
    with open_index(ENCODER, options=OPTIONS) as index:
        written = noted_parts(index, monkeypatch, "write_parts")
        index.sync([*DOCUMENTS, *(Document(f"e{i}", f"shared e{i}") for i in range(100))])
        assert len(written) > len(set(written)) > 16  # more than once, where the memory was full
        assert_same(index.corpus.term_statistics(), counted(index))
        written.clear()
        index.sync([Document("d1", "w1 shared changed")], background=False)
        assert 0 < len(written) <= 12
        assert_same(index.corpus.term_statistics(), counted(index))
    with open_index(ENCODER) as index:
        read = noted_parts(index, monkeypatch, "read_parts")
        SparseRetriever(index.corpus).moments("w39")
        SparseRetriever(index.corpus).moments("w39")
        assert len(read) == 1
        assert_same(index.corpus.term_statistics(), counted(index))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_parts_that_are_lost_or_damaged_are_counted_again(open_index, counting, damage):
    with open_index(ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        if damage == "lost":
            index.corpus.storage.delete_tables({"another"})
        else:
            index.corpus.storage.write_parts(index.corpus.terms._table, dict.fromkeys(range(64), b"zeros"))
    counting.clear()
    with open_index(ENCODER) as index:
        assert_right(index)
        assert 40 in counting
        index.sync([Document("d1", "w1 shared changed")])
        assert_right(index)
    counting.clear()
    with open_index(ENCODER) as index:
        index.corpus.term_statistics()
        assert counting == []


def test_a_change_that_fails_leaves_none_behind(monkeypatch):
    with DocumentIndex.open(":memory:", ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS[:10])
        store = index.corpus.storage.engine.upsert

        def half(points):
            store(points[: len(points) // 2])
            raise StoreError("the connection is lost")

        monkeypatch.setattr(index.corpus.storage.engine, "upsert", half)
        with pytest.raises(IndexingError, match="connection is lost"):
            index.sync(DOCUMENTS)
        assert index.corpus.storage.read_file(FILE) == b"stale"
        assert_right(index)
        monkeypatch.undo()
        index.sync(DOCUMENTS)
        assert_right(index)


def test_who_may_not_write_searches_all_the_same(tmp_path, monkeypatch):
    def refuse(self, name, content):
        raise StoreError("read-only")

    with DocumentIndex.open(tmp_path / "index", ENCODER, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.corpus.storage.delete_file(FILE)
        monkeypatch.setattr(FolderStorage, "write_file", refuse)
        assert_right(index)
        assert index.corpus.storage.read_file(FILE) is None


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_writers_leave_right_ones(qdrant, first_ends_first):
    def opened() -> DocumentIndex:
        return DocumentIndex.open(f"{qdrant.url}/{qdrant.prefix}", ENCODER, options=OPTIONS)

    with opened() as one, opened() as other:
        one.sync(DOCUMENTS)
        first, second = one._changing_points(), other._changing_points()
        of_one, of_other = first.__enter__(), second.__enter__()
        of_one.delete([point_id("d1")])
        of_other.delete([point_id("d2")])
        of_one.delete([point_id("d3")])
        ends, last, of_last = (first, second, of_other) if first_ends_first else (second, first, of_one)
        ends.__exit__(None, None, None)
        of_last.delete([point_id("d4")])
        last.__exit__(None, None, None)
        with opened() as third:
            assert_right(third)
        other.sync(DOCUMENTS)
        with opened() as third:
            assert_right(third)


def test_a_reader_learns_what_another_process_stores(qdrant, monkeypatch):
    def opened() -> DocumentIndex:
        return DocumentIndex.open(f"{qdrant.url}/{qdrant.prefix}", ENCODER, options=OPTIONS)

    monkeypatch.setattr(kept_terms, "_PATIENCE", 1e9)
    with opened() as writer, opened() as reader:
        writer.sync(DOCUMENTS[:20])
        assert reader.corpus.term_statistics().points == 20
        writer.sync(DOCUMENTS)
        assert SparseRetriever(reader.corpus).moments("w39").deviation > 0  # though it knows no such word
        assert reader.corpus.term_statistics().points == 20
        monkeypatch.setattr(kept_terms, "_PATIENCE", 0.0)
        assert_right(reader)
        writer.sync([Document("d8", "w8 w2 w2 w2 shared")])  # as many points and terms as before
        assert_right(reader)


def test_passages_count_each(open_index):
    encoder = WordEncoder(window=8)
    long = Document("long", " ".join(f"Sentence {i} names w{i} and shared." for i in range(20)))
    with open_index(encoder, options=IndexOptions(passages=Passages(overlap=2))) as index:
        index.sync([*DOCUMENTS, long])
        assert index.corpus.term_statistics().points == index.status().points > 41
        assert_same(index.corpus.term_statistics(), counted(index))
        index.sync([Document("long", "Now short.")])
        assert_same(index.corpus.term_statistics(), counted(index))
        index.delete(["long"])
        assert index.corpus.term_statistics().points == 40
        assert_right(index)


def test_a_table_that_was_replaced_takes_no_place(tmp_path):
    """The file was three times as large as what was in it."""
    files = FolderFiles(tmp_path)
    for table in ("one", "two", "three"):
        files.write_parts(table, {number: bytes(6000) for number in range(300)})
    files.delete_tables({"three"})
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.5 * 300 * 6000
    assert len(files.read_parts("three", range(300))) == 300
