"""Other questions' best candidates as an ensemble: p-values, thresholds, their files, and the pipeline."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex
from surprise_rerank.connectors.qdrant.storage import files as storage_files
from surprise_rerank.connectors.systems.backgrounds import (
    delete_background,
    load_background,
    store_background,
    title_questions,
)
from surprise_rerank.connectors.systems.loading import pipeline_of
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.thresholds.background import QuestionBackground, lines_above
from surprise_rerank.thresholds.scales import Lines


def ranking(**raw: list[float]) -> Ranking:
    """Documents d0, d1, ... ordered by their first raw score."""
    first = np.array(next(iter(raw.values())), dtype=np.float64)
    pool = Candidates(ids=tuple(f"d{i}" for i in range(len(first))))
    return Ranking.order(pool, np.nan_to_num(first, nan=-1e9), raw={n: np.array(v) for n, v in raw.items()})


def one_score(values: list[float]) -> QuestionBackground:
    return QuestionBackground.of((f"q{i}", ranking(cosine=[value, -9.0])) for i, value in enumerate(values))


def words(count: int, seed: int) -> str:
    """A question of so many random words: questions that are nearly equal count as one."""
    rng = np.random.default_rng([count, seed])
    return " ".join("".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in range(count))


def judged(background: QuestionBackground, own: Ranking) -> Ranking:
    return background.judged(own, "a question")


def test_surprise_is_the_share_of_questions_whose_best_document_has_less():
    background = one_score([0.1 * i for i in range(19)])
    found = judged(background, ranking(cosine=[0.05, 0.95, 9.0]))
    assert found.ids == ("d2", "d1", "d0")
    assert found.surprise is not None
    assert found.surprise.tolist() == [19 / 20, 10 / 20, 1 / 20]
    assert [hit.surprise for hit in found] == found.surprise.tolist()


def test_a_document_that_only_equals_the_best_of_others_does_not_surprise():
    background = one_score([0.5] * 20)
    assert judged(background, ranking(cosine=[0.5])).surprise.tolist() == [0.0]


@settings(max_examples=50, deadline=None)
@given(st.integers(19, 60), st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 0.2]))
def test_no_more_than_alpha_of_the_same_kind_of_questions_pass(count: int, seed: int, alpha: float):
    """Over all ways to leave one of n + 1 questions out, which is what exchangeable means."""
    scores = np.random.default_rng(seed).standard_cauchy(count + 1)
    passed = []
    for i, score in enumerate(scores):
        background = one_score(np.delete(scores, i).tolist())
        passed.append(len(lines_above(judged(background, ranking(cosine=[score])), 1 - alpha)) > 0)
    assert np.mean(passed) <= alpha + 1e-9


def test_several_scorers_are_added_in_deviations_of_their_best_with_half_the_weight_for_bm25():
    values = np.random.default_rng(0).normal(size=(40, 2)) * [0.1, 7.0] + [0.5, 20.0]
    background = QuestionBackground.of(
        ("q", ranking(cosine=[cosine, -1.0], bm25=[bm25, 0.0])) for cosine, bm25 in values
    )
    assert background.names == ("cosine", "bm25")
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    expected = ((np.array([0.9, 10.0]) - mean) / deviation) @ [1.0, 0.5]
    assert background.totals_of(ranking(cosine=[0.9], bm25=[10.0]), "q") == pytest.approx([expected])


def test_only_the_mean_of_bm25_follows_the_number_of_words():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, size=200)
    background = QuestionBackground.of(
        (words(n, i), ranking(bm25=[5 + 10 * np.log(n) + noise], cosine=[0.1 * n]))
        for i, (n, noise) in enumerate(zip(lengths, rng.normal(size=200), strict=True))
    )
    by_name = dict(zip(background.names, background.scales.slopes, strict=True))
    assert 8 < by_name["bm25"] < 10  # a little less: ten questions of no slope stand against 200
    assert by_name["cosine"] == 0
    alone = QuestionBackground.of(
        (words(n, i), ranking(bm25=[5 + 10 * np.log(n) + noise]))
        for i, (n, noise) in enumerate(zip(lengths, rng.normal(size=200), strict=True))
    )
    short, long, beyond = (
        alone.totals_of(ranking(bm25=[5 + 10 * np.log(min(n, 19))]), " ".join(["w"] * n))[0]
        for n in (2, 19, 500)
    )
    assert short == pytest.approx(long, abs=1.5)
    assert beyond == pytest.approx(long)


def test_one_question_of_a_length_of_its_own_decides_nothing():
    rng = np.random.default_rng(0)
    answers = [(words(5, i), ranking(bm25=[10 + noise])) for i, noise in enumerate(rng.normal(size=200))]
    background = QuestionBackground.of([*answers, ("a b c d e f", ranking(bm25=[0.0]))])
    assert background.scales.slopes.tolist() == [0.0]
    background = QuestionBackground.of([*answers, ("a b c d e f", ranking(bm25=[60.0]))])
    others = [background.judged(ranking(bm25=[10 + noise]), "a b c d e f") for noise in rng.normal(size=400)]
    assert np.mean([own.surprise[0] >= 0.95 for own in others]) < 0.1


def test_a_score_that_is_missing_is_no_evidence():
    background = QuestionBackground.of(
        ("q", ranking(cosine=[x, x], bm25=[3 * x, np.nan])) for x in np.linspace(0, 1, 11)
    )
    both = background.totals_of(ranking(cosine=[0.5, 0.5], bm25=[np.nan, 1.5]), "q")
    assert both == pytest.approx([0.0, 0.0])


def test_surprise_falls_along_a_ranking_whose_order_is_another():
    background = one_score(np.linspace(0, 1, 19).tolist())
    pool = Candidates(ids=("a", "b", "c"))
    order = Ranking.order(pool, np.array([3.0, 2.0, 1.0]), raw={"cosine": np.array([0.2, 0.9, 0.1])})
    surprise = judged(background, order).surprise
    assert surprise[0] == surprise[1] > surprise[2]


def test_questions_that_found_nothing_count_as_the_least():
    nothing = Ranking((), np.zeros(0))
    answers = [(f"q{i}", ranking(cosine=[float(i)])) for i in range(10)] + [
        (f"r{i}", nothing) for i in range(9)
    ]
    background = QuestionBackground.of(answers)
    assert background.count == 19
    assert judged(background, ranking(cosine=[-5.0])).surprise.tolist() == [9 / 20]
    assert len(judged(background, nothing)) == 0


def test_what_cannot_be_told_is_refused():
    background = one_score([float(i) for i in range(19)])
    background.check(0.95)
    with pytest.raises(
        DataError,
        match=r"19 background questions measure a surprise of at most 0\.9500.* at least 99 different ones",
    ):
        background.check(0.99)
    with pytest.raises(DataError, match="choose one below 1"):
        background.check(1.0)
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(DataError, match="a share from 0 to 1"):
            background.check(wrong)
    with pytest.raises(DataError, match="9 of 9 background questions found candidates; give at least 10"):
        one_score([1.0] * 9)
    with pytest.raises(DataError, match="of the scores cosine, the ranking of bm25"):
        judged(background, ranking(bm25=[1.0]))
    mixed = [("q", ranking(cosine=[1.0]))] * 10 + [("odd", ranking(bm25=[1.0]))]
    with pytest.raises(DataError, match="'odd' was scored by bm25, others by cosine"):
        QuestionBackground.of(mixed)
    with pytest.raises(DataError, match="judge it with a background first"):
        lines_above(ranking(cosine=[1.0]), 0.5)


def test_a_background_comes_back_from_its_bytes():
    background = one_score([float(i) for i in range(19)])
    again = QuestionBackground.from_bytes(background.to_bytes(), "here")
    assert (again.names, again.count) == (background.names, background.count)
    np.testing.assert_array_equal(again.totals, background.totals)
    for damaged in (b"", b"PK", background.to_bytes()[:200]):
        with pytest.raises(DataError, match="here: not a background of questions"):
            QuestionBackground.from_bytes(damaged, "here")


@pytest.mark.parametrize(
    "wrong",
    [
        {"totals": np.array([2.0, 1.0])},
        {"totals": np.array([np.nan] * 19)},
        {"scales": Lines(np.zeros(1), np.zeros(1), np.zeros(1))},
        {"scales": Lines(np.zeros(2), np.zeros(1), np.ones(1))},
        {"scales": Lines(np.array([np.inf]), np.zeros(1), np.ones(1))},
        {"depth": 0},
        {"lengths": (3.0, 2.0, 1.0)},
    ],
)
def test_a_file_with_impossible_numbers_is_no_background(wrong: dict):
    damaged = replace(one_score([float(i) for i in range(19)]), **wrong).to_bytes()
    with pytest.raises(DataError, match="here: not a background of questions"):
        QuestionBackground.from_bytes(damaged, "here")


@given(st.integers(0, 2**31), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_any_damage_is_one_error(place: int, byte: int):
    content = bytearray(one_score([float(i) for i in range(19)]).to_bytes())
    content[place % len(content)] = byte
    with suppress(DataError):
        QuestionBackground.from_bytes(bytes(content), "here")


WORDS = ["wing", "lift", "drag", "flow", "wave", "heat", "beam", "load", "mach", "gust"]
OTHERS = [f"{a} {b}" for a in ("tea", "jam", "egg", "rye") for b in ("pot", "tin", "cup", "jar", "mug")]


@pytest.fixture
def index(tmp_path):
    encoder = WordEncoder()
    documents = [
        Document(f"d{i}", f"{a} {b}") for i, a in enumerate(WORDS) for b in WORDS if a == b or i == 0
    ]
    documents = [Document(str(i), document.text) for i, document in enumerate(documents)]
    with DocumentIndex.open(tmp_path / "index", encoder) as opened:
        opened.sync(documents)
        yield opened


def test_an_off_topic_question_gets_no_document(index: DocumentIndex):
    pipeline = Pipeline(index.encoder, DenseRetriever(index), min_surprise=None).with_background(OTHERS)
    assert pipeline.background is not None
    assert pipeline.background.count == len(OTHERS)
    strict = Pipeline(index.encoder, DenseRetriever(index), background=pipeline.background, min_surprise=0.95)
    assert strict.search("wing lift").ids[0] == "1"
    assert len(strict.search("rye mug")) == 0
    assert len(pipeline.search("rye mug")) > 0


def test_a_threshold_without_a_background_is_refused(index: DocumentIndex):
    with pytest.raises(DataError, match="needs a background of other questions"):
        Pipeline(index.encoder, DenseRetriever(index), min_surprise=0.9)
    with pytest.raises(DataError, match="has no background of other questions for the system 'cosine'"):
        pipeline_of(index, "cosine", min_surprise=0.9)


def test_an_index_keeps_a_background_for_each_system(index: DocumentIndex):
    made = pipeline_of(index, "dynamax").with_background(OTHERS).background
    store_background(index, "dynamax", made)
    assert load_background(index, "cosine") is None
    again = pipeline_of(index, "dynamax", min_surprise=0.9)
    assert again.background is not None
    np.testing.assert_array_equal(again.background.totals, made.totals)
    with pytest.raises(DataError, match="give at least 99"):
        pipeline_of(index, "dynamax", min_surprise=0.99)
    delete_background(index, "dynamax")
    assert load_background(index, "dynamax") is None


def test_titles_of_another_corpus_stand_for_questions():
    documents = [
        Document("1", "A text.", title="Heat transfer"),
        Document("2", "First sentence here. Second one."),
        Document("3", ""),
    ]
    assert title_questions(documents) == ["Heat transfer", "First sentence here."]
    many = [Document(str(i), "", title=f"title {i}") for i in range(100)]
    drawn = title_questions(many, 10)
    assert len(set(drawn)) == 10
    assert drawn == title_questions(many, 10) != title_questions(many, 10, seed=1)


def test_in_memory_and_on_servers_a_background_is_there_whole_or_the_old_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage_files, "_PART_BYTES", 256)
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Document("d", "wing lift")])
        index.storage.write_file("x", bytes(range(200)) * 4)
        index.storage.write_file("x", b"short")
        assert index.storage.read_file("x") == b"short"
        sent = 0

        def interrupted(*arguments, **more):
            nonlocal sent
            sent += 1
            if sent > 1:
                raise KeyboardInterrupt
            return upsert(*arguments, **more)

        upsert = index.storage._nodes.nodes[0].client.upsert
        monkeypatch.setattr(index.storage._nodes.nodes[0].client, "upsert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.storage.write_file("x", bytes(range(100)) * 8)
        assert index.storage.read_file("x") == b"short"
        monkeypatch.setattr(index.storage._nodes.nodes[0].client, "upsert", upsert)
        index.storage.write_file("x", bytes(range(100)) * 8)
        assert index.storage.read_file("x") == bytes(range(100)) * 8


def test_another_ensemble_needs_another_background_of_surprise(index: DocumentIndex):
    index.set_ensemble(index.ensemble(), source="documents")
    index.store_background(OTHERS, "surprise")
    assert pipeline_of(index, "surprise").background is not None
    index.set_ensemble(Ensemble.from_vectors(index.encoder.encode(OTHERS).dense, model="words"))
    assert pipeline_of(index, "surprise").background is None


def test_questions_are_a_list_of_strings(index: DocumentIndex):
    pipeline = Pipeline(index.encoder, DenseRetriever(index))
    with pytest.raises(DataError, match="got one string; put it into a list"):
        pipeline.with_background("what is this?")
    with pytest.raises(DataError, match="must be strings, got int"):
        pipeline.with_background(["what?", 3])


@given(st.integers(1, 30), st.integers(10, 60))
@settings(max_examples=30, deadline=None)
def test_questions_of_one_length_make_a_background_that_can_be_read(length: int, count: int):
    made = QuestionBackground.of(
        (" ".join([f"w{i}"] * length), ranking(bm25=[float(i)])) for i in range(count)
    )
    assert QuestionBackground.from_bytes(made.to_bytes(), "here").lengths == made.lengths
