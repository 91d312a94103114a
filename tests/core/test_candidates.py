"""Pools and rankings: aligned arrays, one order for every store."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import Candidates, DataError, Document, Hit, Passage, Ranking
from surprise_rerank._candidates import Inclusion
from surprise_rerank._documents import encodable
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch


def pool(n: int = 4) -> Candidates:
    """Document i has the number i in every field."""
    ids = tuple(f"d{i}" for i in range(n))
    return Candidates(
        ids=ids,
        scores={"bm25": np.arange(n) + 0.5, "cosine": np.arange(n) / 10},
        dense=np.repeat(np.arange(n, dtype=np.float32)[:, None], 3, axis=1),
        tokens=TokenBatch.from_arrays([np.full((i, 2), i, np.float32) for i in range(n)], 2),
        documents=tuple(Document(id=name, text=f"text {name}") for name in ids),
        corpus_moments={"bm25": Moments(np.array(1.0), np.array(2.0))},
        passages=tuple(Passage(i, i, i + 1) for i in range(n)),
        inclusion=Inclusion(np.arange(n) + 0.25, np.arange(n), np.array([7.0]), np.array([3])),
    )


def assert_aligned(candidates: Candidates) -> None:
    for position, name in enumerate(candidates.ids):
        i = int(name[1:])
        assert candidates.scores["bm25"][position] == i + 0.5
        assert candidates.scores["cosine"][position] == i / 10
        assert candidates.dense[position].tolist() == [i] * 3
        np.testing.assert_allclose(candidates.tokens[position], np.full((i, 2), i), rtol=1e-6)
        assert candidates.documents[position].id == name
        assert candidates.passages[position] == Passage(i, i, i + 1)
        assert candidates.inclusion.scores[position] == i + 0.25
        assert candidates.inclusion.lengths[position] == i
    assert candidates.inclusion.usual == 7.0
    assert candidates.corpus_moments["bm25"].deviation == 2.0


@given(st.lists(st.integers(-4, 3), max_size=6))
def test_take_moves_every_field_alike(rows):
    taken = pool().take(rows)
    assert taken.ids == tuple(f"d{i % 4}" for i in rows)
    assert len(taken) == len(taken.dense) == len(taken.tokens) == len(taken.documents) == len(rows)
    assert len(taken.passages) == len(rows)
    assert_aligned(taken)


@given(st.lists(st.integers(0, 3), unique=True), st.data())
def test_joining_parts_gives_the_whole(rows, data):
    cut = data.draw(st.integers(0, len(rows)))
    joined = pool().take(rows[:cut]).join(pool().take(rows[cut:]))
    assert joined.ids == tuple(f"d{i}" for i in rows)
    assert_aligned(joined)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scores", {"bm25": np.zeros(3)}),
        ("dense", np.zeros((1, 4), np.float32)),
        ("tokens", TokenBatch.from_arrays([], 2)),
        ("documents", (Document(id="a", text=""),)),
        ("passages", (Passage(0, 0, 1),)),
    ],
)
def test_a_field_of_another_length_is_refused_and_named(field, value):
    with pytest.raises(DataError, match=rf"the length of Candidates\.{field}.* must be 2"):
        Candidates(ids=("a", "b"), **{field: value})


# Rankings


@given(st.lists(st.integers(0, 3), max_size=8), st.randoms(use_true_random=False))
def test_scores_descend_and_ties_go_by_id_whatever_the_order_of_the_pool(values, shuffler):
    rows = list(range(len(values)))
    shuffler.shuffle(rows)
    ids = [f"d{i}" for i in rows]
    scores = np.array([values[i] for i in rows], dtype=float)
    ranking = Ranking.order(Candidates(ids=tuple(ids)), scores)
    expected = sorted(rows, key=lambda i: (-values[i], f"d{i}"))
    assert ranking.ids == tuple(f"d{i}" for i in expected)
    assert ranking.scores.tolist() == [values[i] for i in expected]


def test_parts_documents_and_notes_follow_the_order():
    candidates = pool()
    parts = {"half": np.arange(4, dtype=np.float32) / 2}
    ranking = Ranking.order(candidates, np.array([1.0, 3.0, 2.0, 4.0], np.float32), parts, ["a note"])
    assert [p.number for p in ranking.passages] == [3, 1, 2, 0]
    assert ranking.ids == ("d3", "d1", "d2", "d0")
    assert ranking.scores.dtype == ranking.parts["half"].dtype == np.float64
    assert ranking.parts["half"].tolist() == [1.5, 0.5, 1.0, 0.0]
    assert tuple(d.id for d in ranking.documents) == ranking.ids
    assert ranking.notes == ("a note",)
    for k, kept in ((0, 0), (1, 1), (4, 4), (9, 4)):
        top = ranking.top(k)
        assert len(top) == len(top.scores) == len(top.parts["half"]) == len(top.documents) == kept
        assert top.ids == ranking.ids[:kept]
        assert top.scores.tolist() == ranking.scores.tolist()[:kept]
        assert [p.number for p in top.passages] == [3, 1, 2, 0][:kept]
        assert top.notes == ("a note",)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "nan"), (np.inf, "inf")])
def test_a_score_that_is_no_number_names_its_document(bad, word):
    with pytest.raises(DataError, match=f"document 'd2' must be a number, got {word}"):
        Ranking.order(pool(), np.array([0.0, 1.0, bad, 2.0]))


# Rankings of passages


def plainly_ordered(
    ids: list[str], numbers: list[int], scores: list[float], best: int
) -> list[tuple[str, float, int]]:
    """Documents as (id, score, row of the best passage), by the definition."""
    lines = []
    for name in set(ids):
        rows = sorted((i for i in range(len(ids)) if ids[i] == name), key=lambda i: (-scores[i], numbers[i]))
        counted = [scores[i] for i in rows[:best]]
        lines.append((name, sum(counted) / len(counted), rows[0]))
    return sorted(lines, key=lambda line: (-line[1], line[0]))


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "b\0", "c"]), st.integers(0, 9)), unique=True, max_size=20),
    st.integers(1, 4),
    st.data(),
)
def test_documents_are_ordered_by_their_best_passages(pairs, best, data):
    ids, numbers = [name for name, _ in pairs], [number for _, number in pairs]
    values = st.sampled_from([-np.inf, -2.0, 0.0, -0.0, 1.0, 3.0])
    scores = data.draw(st.lists(values, min_size=len(ids), max_size=len(ids)))
    candidates = Candidates(
        ids=tuple(ids),
        documents=tuple(Document(id=name, text="0123456789") for name in ids),
        passages=tuple(Passage(number, number, number + 1) for number in numbers),
        best=best,
    )
    ranking = Ranking.order(candidates, np.array(scores), {"row": np.arange(len(ids))})
    lines = [(hit.id, hit.score, int(hit.parts["row"])) for hit in ranking]
    assert lines == plainly_ordered(ids, numbers, scores, best)
    for hit in ranking:
        assert hit.document.id == hit.id
        assert hit.passage.number == numbers[int(hit.parts["row"])]
        assert hit.text == str(hit.passage.number)


def test_a_ranking_reads_as_a_list_of_hits():
    documents = tuple(Document(f"d{i}", f"text {i}", f"title {i}", {"year": i}) for i in range(5))
    candidates = Candidates(ids=tuple(d.id for d in documents), documents=documents)
    ranking = Ranking.order(candidates, np.arange(5.0))
    assert (ranking[0].id, ranking[-1].id, ranking[:3].ids) == ("d4", "d0", ("d4", "d3", "d2"))
    assert list(ranking) == [ranking[i] for i in range(5)]
    hit = ranking[1]
    assert (hit.text, hit.title, hit.metadata) == ("title 3 text 3", "title 3", {"year": 3})
    with pytest.raises(IndexError):
        ranking[5]
    bare = Ranking.order(Candidates(ids=("a",)), np.zeros(1))[0]
    assert (bare.text, bare.title, bare.metadata) == ("", "", {})
    assert Hit("a", 1.0, {}, documents[0], Passage(1, 1, 4)).text == "itl"
    assert Hit("a", 1.0, {}, None, Passage(1, 3, 5)).text == ""
    assert repr(ranking) == "<Ranking of 5 documents, best 'd4' with 4>"
    assert repr(ranking[:0]) == "<Ranking of 0 documents>"


# Documents: text that can be carried anywhere, and a hash that tells when it changed.

# Lone surrogates included: hypothesis leaves them out of `text()` unless it is told otherwise.
any_text = st.text(st.characters(categories=None, exclude_categories=()))


@given(any_text)
def test_every_text_becomes_encodable_and_stays_so(text):
    once = encodable(text)
    once.encode("utf-8")
    assert encodable(once) == once
    if text.isprintable():
        assert once == text


def test_a_document_repairs_its_id_text_and_title():
    document = Document(id="d\ud800", text="\ud83d\ude00", title="\udfff t")
    assert (document.id, document.text, document.title) == ("d\ufffd", "😀", "\ufffd t")


@pytest.mark.parametrize(
    ("title", "text", "content"),
    [
        ("Wings", "Lift and drag.", "Wings Lift and drag."),
        ("", "Lift and drag.", "Lift and drag."),
        ("Wings", "", "Wings"),
        ("", "", ""),
        ("", "  spaced  ", "spaced"),
    ],
)
def test_content_is_title_and_text_without_outer_blanks(title, text, content):
    assert Document(id="1", text=text, title=title).content == content


def test_words_that_move_from_title_to_text_change_the_hash():
    one = Document(id="1", title="a b", text="c")
    other = Document(id="1", title="a", text="b c")
    assert one.content == other.content
    assert one.content_hash != other.content_hash
